"""The view flipped and turned: all that lies on the image goes with it, and what is drawn is stored where it lies."""

import pytest

from tests.app.review.conftest import WIDGET, enter

PIXELS = """async () => {
  const { review } = document.querySelector('.widget-review');
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const { canvas, context } = review.panes[0];
  const { width, height } = canvas;
  return { width, height, data: context.getImageData(0, 0, width, height).data };
}"""


def test_image_and_heat_map_are_flipped_together(page, page_url):
    enter(page, page_url)
    page.evaluate(f"{WIDGET}.review.display.set({{ contour: false }})")
    mirrored = """async (down) => {
      const now = await (%s)();
      const { width: w, height: h, data } = window.upright;
      let off = 0;
      let all = 0;
      for (let y = 0; y < h; y += 3)
        for (let x = 0; x < w; x += 3)
          for (let c = 0; c < 3; c += 1) {
            const from = 4 * ((down ? h - 1 - y : y) * w + (down ? x : w - 1 - x)) + c;
            off += Math.abs(now.data[4 * (y * w + x) + c] - data[from]);
            all += Math.abs(now.data[4 * (y * w + x) + c] - data[4 * (y * w + x) + c]);
          }
      return [off, all];
    }"""
    for key, down, words in ((",", False, "⇆ flipped"), (".", True, "⇅ flipped")):
        page.evaluate(f"async () => {{ window.upright = await ({PIXELS})(); }}")
        page.keyboard.press(key)
        page.wait_for_function("t => document.querySelector('.rv-turned')?.innerText === t", arg=words)
        off, unlike = page.evaluate(mirrored % PIXELS, down)
        assert off < 0.1 * unlike, key
        page.locator(".rv-turned").click()
        page.wait_for_selector(".rv-turned", state="hidden")


# The keys, and where in an image of w x h the place (u, v) of the picture lies that is then seen.
TURNED = {
    "j": lambda u, v, w, h: (v, h - u),
    ",j": lambda u, v, w, h: (w - v, h - u),
    "jjj.": lambda u, v, w, h: (v, u),
}


@pytest.mark.long
@pytest.mark.parametrize("keys", TURNED)
def test_a_stroke_is_stored_where_it_was_drawn_in_the_image(page, page_url, keys):
    enter(page, page_url)
    for key in keys:
        page.keyboard.press(key)
    pane, image, scale, dx, dy = page.evaluate(
        f"(({{ pane, image, scale, dx, dy }}) => [pane, image, scale, dx, dy])({WIDGET}.review.view)"
    )
    assert scale == pytest.approx(min(pane["w"] / image["h"], pane["h"] / image["w"])), "fitted as it is seen"
    box = page.locator(".rv-pane canvas").first.bounding_box()
    place = (box["width"] * 0.45, box["height"] * 0.3)
    meant = TURNED[keys]((place[0] - dx) / scale, (place[1] - dy) / scale, image["w"], image["h"])
    page.keyboard.press("b")
    drafts = page.evaluate(f"{WIDGET}.review.drafts.cases.size")  # other tests' as well
    page.evaluate(f"{WIDGET}.review.editor.mask?.fill(0)")  # what another test may have stored, in this page alone
    page.mouse.move(box["x"] + place[0], box["y"] + place[1])
    page.mouse.down()
    page.mouse.up()
    middle = page.evaluate(
        f"""(() => {{ const {{ mask, w }} = {WIDGET}.review.editor; let n = 0, x = 0, y = 0;
        mask.forEach((on, i) => {{ if (on) {{ n += 1; x += i % w + 0.5; y += Math.floor(i / w) + 0.5; }} }});
        return [x / n, y / n]; }})()"""
    )
    assert middle == pytest.approx(meant, abs=1.0)
    page.keyboard.press("z")
    page.wait_for_function(f"(n) => {WIDGET}.review.drafts.cases.size === n", arg=drafts)


@pytest.mark.long
def test_the_next_case_is_upright_and_so_is_a_fitted_one(page, page_url):
    enter(page, page_url)
    page.get_by_role("button", name="Flip upside down").click()
    page.wait_for_selector(".rv-turned")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".rv-turned", state="hidden")
    page.get_by_role("button", name="Turn right").click()
    page.wait_for_selector(".rv-turned")
    page.keyboard.press("f")
    page.wait_for_selector(".rv-turned", state="hidden")
    assert page.evaluate(f"{WIDGET}.review.view.turn.a") == 1

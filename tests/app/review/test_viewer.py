"""The viewer: window and level, zoom, flips and turns, the ruler, fingers on a tablet; times by the reader's clock."""

from __future__ import annotations

import re

import pytest

from tests.app.conftest import routed
from tests.app.review.conftest import STUDY, UNREAD, WIDGET, enter, rows, settle

LABEL = "select[aria-label='Window presets']"


def shown(page) -> str:
    return page.locator(LABEL).evaluate("(s) => s.selectedOptions[0].textContent")


@pytest.mark.long
def test_the_label_of_the_window_follows_and_resets(page, page_url):
    enter(page, page_url)
    reset = page.get_by_role("button", name="Reset", exact=True)
    assert shown(page) == "full range" and reset.is_disabled()
    page.locator(LABEL).select_option(label="Dark parts")
    assert shown(page) == "Dark parts"
    page.get_by_label("Level", exact=True).fill("200")
    assert shown(page) == "custom window"
    reset.click()
    assert shown(page) == "full range" and page.evaluate(f"{WIDGET}.review.show.window") is None
    page.locator(LABEL).select_option(label="Bright parts")
    page.locator(".rv-view").focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert shown(page) == "full range", "a case begins with its full range"
    page.locator(LABEL).select_option(label="Bright parts")
    page.get_by_role("button", name="Keep", exact=True).click()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert shown(page) == "Bright parts" and page.evaluate(f"{WIDGET}.review.show.window.centre") > 128
    page.get_by_role("button", name="Keep", exact=True).click()


@pytest.mark.long
def test_another_study_never_stands_beside_the_old_image(page, page_url):
    enter(page, page_url, UNREAD)
    held = []
    routed(page, "**/api/review/open**", lambda route: held.append(route))
    page.evaluate(f"window.Studio.setStudy('{STUDY}')")
    page.wait_for_function(f"{WIDGET}.review.study === '{STUDY}'")
    assert page.evaluate(f"{WIDGET}.review.picture") is None
    assert page.locator(".rv-title").inner_text() == "Loading…"
    assert page.locator(".rv-row[data-id]").count() == 0 and page.locator(".rv-row.skeleton").count() > 3
    blank = "(c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.every((v) => v === 0)"
    assert page.locator(".rv-pane canvas").first.evaluate(blank)
    for route in held:
        route.continue_()
    page.unroute("**/api/review/open**")
    page.wait_for_function(f"{WIDGET}.review.picture && {WIDGET}.review.setup.study === '{STUDY}'")


@pytest.mark.long
def test_before_the_first_case_there_are_skeletons_and_no_word_of_blind_reading(page, page_url):
    held = []
    page.route("**/api/review/open**", lambda route: held.append(route))
    page.goto(f"{page_url}?study={STUDY}&tab=review")
    page.wait_for_selector(".rv-row.skeleton")
    assert page.locator(".rv-veil").is_hidden() and page.locator(".rv-waits").is_hidden()
    black = "(pane) => getComputedStyle(pane).backgroundColor === 'rgb(0, 0, 0)'"
    pane = page.locator(".rv-pane").first
    assert not pane.evaluate(black), "no black tile where an image is awaited"
    for route in held:
        route.continue_()
    page.wait_for_function(f"{WIDGET}?.review?.picture")
    assert pane.evaluate(black)


@pytest.mark.long
def test_times_are_those_of_the_readers_clock(browser, page_url, review_home):
    case = rows(
        review_home, "SELECT c.id FROM cases c JOIN lesion_masks m ON m.case_id = c.id WHERE c.study = ?", STUDY
    )
    context = browser.new_context(timezone_id="Asia/Tokyo", locale="en-GB", viewport={"width": 1366, "height": 768})
    page = context.new_page()
    enter(page, page_url)
    page.evaluate(f"{WIDGET}.review.goTo({case[0][0]})")
    settle(page)
    page.evaluate("import('/page/static/format.js').then((f) => { window.moment = f.moment })")
    page.wait_for_function("window.moment")
    assert page.evaluate("window.moment('2026-11-21T18:10:00.000Z')") == "22 Nov 2026, 03:10"
    drawn = "(m) => Object.assign(m, {source: 'hand', reader: 'ann', reference: false})"
    page.evaluate(f"{WIDGET}.review.detail.masks.forEach({drawn}); {WIDGET}.review.redraw()")
    text = page.locator("select[aria-label='Version of the lesion mask'] option").nth(1).inner_text()
    assert re.search(r"\d{1,2} \w{3} \d{4}, \d\d:\d\d", text) and "T" not in text.split(",")[-1]
    context.close()


@pytest.mark.long
def test_a_dragged_line_has_its_length_in_pixels(page, page_url):
    enter(page, page_url)
    box = page.locator(".rv-pane canvas").first.bounding_box()
    left, top = box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.4
    page.keyboard.press("w")
    page.wait_for_selector("button[aria-label=Ruler][aria-pressed=true]")
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(left + 60, top + 80, steps=3)
    page.mouse.up()
    (a, b), scale = page.evaluate(f"[{WIDGET}.review.ruler.line, {WIDGET}.review.view.scale]")
    assert ((b["x"] - a["x"]) ** 2 + (b["y"] - a["y"]) ** 2) ** 0.5 == pytest.approx(100 / scale, rel=1e-3)
    page.keyboard.press("Escape")
    page.wait_for_function(f"!{WIDGET}.review.ruler.active && !{WIDGET}.review.ruler.line")


@pytest.mark.long
def test_the_image_fills_the_screen_and_comes_back(page, page_url):
    enter(page, page_url)
    page.keyboard.press("v")
    page.wait_for_function("document.fullscreenElement?.classList.contains('rv-stage')")
    page.keyboard.press("v")
    page.wait_for_function("!document.fullscreenElement")


# [scale, x, y]: pixels of the screen for one of the image, and the image's point under the place that is asked for.
UNDER = f"""([px, py]) => {{
  const {{ scale, dx, dy }} = {WIDGET}.review.view;
  return [scale, (px - dx) / scale, (py - dy) / scale];
}}"""


@pytest.mark.long
def test_the_wheel_zooms_about_the_pointer(page, page_url):
    enter(page, page_url)
    box = page.locator(".rv-pane canvas").first.bounding_box()
    place = [box["width"] * 0.4, box["height"] * 0.6]
    fitted, x, y = page.evaluate(UNDER, place)
    page.mouse.move(box["x"] + place[0], box["y"] + place[1])
    scale = fitted
    for turn in (-300, -300, 200):
        page.mouse.wheel(0, turn)
        closer = "s > arg" if turn < 0 else "s < arg"
        page.wait_for_function(f"(arg) => {{ const s = {WIDGET}.review.view.scale; return {closer}; }}", arg=scale)
        scale, *under = page.evaluate(UNDER, place)
        assert under == pytest.approx([x, y], abs=1 / fitted), "the same point of the image stays under the pointer"
    assert scale > fitted
    page.mouse.dblclick(box["x"] + place[0], box["y"] + place[1])
    page.wait_for_function(f"(fitted) => Math.abs({WIDGET}.review.view.scale - fitted) < 1e-6", arg=fitted)


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


@pytest.mark.long
@pytest.mark.parametrize("size", [(1024, 768), (820, 1180)])
def test_on_a_tablet_nothing_is_cut_and_fingers_pinch(browser, page_url, size):
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, has_touch=True)
    page = context.new_page()
    enter(page, page_url)
    settle(page)
    page.evaluate("document.fonts.ready.then(() => new Promise((drawn) => requestAnimationFrame(drawn)))")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for name in (".rv-rows", ".rv-view", ".rv-decide", ".rv-say.abnormal", ".rv-threshold", ".rv-top"):
        box = page.locator(name).first.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= size[0] + 1 and box["width"] > 60, name
    view = page.locator(".rv-view").bounding_box()
    assert view["width"] * view["height"] > 0.2 * size[0] * size[1]
    assert page.locator(".rv-say.normal").bounding_box()["height"] >= 44
    inside = page.evaluate(
        "[...document.querySelectorAll('.rv-decide > *, .rv-top > *')].every((e) => {"
        "const b = e.getBoundingClientRect(); return !b.width || b.right <= innerWidth + 1 })"
    )
    assert inside
    before = page.evaluate(f"{WIDGET}.review.view.scale")
    page.evaluate(
        """() => { const c = document.querySelector('.rv-pane canvas'), b = c.getBoundingClientRect();
        c.setPointerCapture = () => null;
        const go = (type, id, dx) => c.dispatchEvent(new PointerEvent(type, { pointerId: id, pointerType: 'touch',
          isPrimary: id === 1, clientX: b.x + b.width / 2 + dx, clientY: b.y + b.height / 2, bubbles: true }));
        go('pointerdown', 1, -30); go('pointerdown', 2, 30); go('pointermove', 2, 60); go('pointermove', 1, -60);
        go('pointerup', 1, -60); go('pointerup', 2, 60) }"""
    )
    assert page.evaluate(f"{WIDGET}.review.view.scale") > 1.5 * before
    page.locator(".rv-say.normal").tap()
    settle(page)
    context.close()

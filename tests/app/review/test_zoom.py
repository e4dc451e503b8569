"""The wheel zooms about the point under the pointer, and a double click shows all of the image again."""

import pytest

from tests.app.review.conftest import WIDGET, enter

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

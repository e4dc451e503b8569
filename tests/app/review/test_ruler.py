"""The ruler measures in the image's own pixels whatever the zoom, and the viewer fills the screen and comes back."""

import pytest

from tests.app.review.conftest import WIDGET, enter

pytestmark = pytest.mark.long


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


def test_the_image_fills_the_screen_and_comes_back(page, page_url):
    enter(page, page_url)
    page.keyboard.press("v")
    page.wait_for_function("document.fullscreenElement?.classList.contains('rv-stage')")
    page.keyboard.press("v")
    page.wait_for_function("!document.fullscreenElement")

"""Masks from boxes on the page: snap to the heat map's blob, a dragged box, clicks that correct, what is missing."""

from __future__ import annotations

import json

import pytest

from core.engine.segment import source
from tests.app.review.conftest import WIDGET, enter, settle
from tests.app.review.test_masks import FURTHEST

pytestmark = pytest.mark.long

EDITOR = f"{WIDGET}.review.editor"
PIXELS = f"{EDITOR}.mask.reduce((a, b) => a + b, 0)"


def steps(page, count: int) -> None:
    page.wait_for_function(f"{EDITOR}.history.length === {count}", timeout=120_000)


@pytest.mark.skipif(source.file() is None, reason=f"{source.PACKAGE} is not installed")
def test_snap_and_box_are_steps_of_a_drawing_that_clicks_correct(page, page_url):
    enter(page, page_url)
    page.keyboard.press("f")
    page.keyboard.press("b")  # an empty drawing, whatever version was on screen
    page.evaluate(f"{EDITOR}.clear()")
    before = page.evaluate(f"{EDITOR}.history.length")
    box = page.locator(".rv-pane canvas").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] + 400, box["y"])  # the hottest blob, for the pointer is elsewhere
    page.keyboard.press(";")
    steps(page, before + 1)
    snapped = page.evaluate(PIXELS)
    assert snapped > 0 and page.evaluate(f"{EDITOR}.tool") == "brush", "no tool is switched unasked"
    page.keyboard.press("g")
    page.keyboard.down("Alt")
    page.mouse.click(*page.evaluate(FURTHEST, 1))
    page.keyboard.up("Alt")
    steps(page, before + 2)
    assert 0 < page.evaluate(PIXELS) < snapped, "takes away from what was snapped"
    for left in (1, 0):
        page.keyboard.press("z")
        steps(page, before + left)
    assert page.evaluate(PIXELS) == 0
    page.keyboard.press("/")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 60, y - 60)
    page.mouse.down()
    page.mouse.move(x + 60, y + 60, steps=3)
    page.mouse.up()
    steps(page, before + 1)
    assert page.evaluate(PIXELS) > 0
    page.wait_for_selector(".rv-drafted:not([hidden])")
    page.locator(".rv-editing").get_by_role("button", name="Discard").click()
    settle(page)


def test_without_the_model_the_page_says_what_is_missing(page, page_url):
    answer = json.dumps({"ok": True, "missing": source.HOW})
    page.route("**/api/review/boxes", lambda route: route.fulfill(body=answer, content_type="application/json"))
    enter(page, page_url)
    page.wait_for_selector(".rv-lacks:not([hidden])")
    assert source.HOW in page.locator(".rv-lacks").inner_text()
    assert page.locator(".rv-tools button").filter(has_text="Box").is_disabled()
    page.keyboard.press(";")
    page.wait_for_function(f"document.body.innerText.includes({json.dumps(source.PACKAGE)})")
    assert page.evaluate(f"{EDITOR}.mask") is None
    page.keyboard.press("b")
    assert page.evaluate(f"{EDITOR}.tool") == "brush"
    page.locator(".rv-editing").get_by_role("button", name="Discard").click()

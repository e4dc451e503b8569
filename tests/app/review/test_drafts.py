"""Drawn strokes are never lost: kept by themselves, restored after a reload, shown as a draft, undone across cases."""

from __future__ import annotations

import pytest

from tests.app.review.conftest import WIDGET, enter, rows, settle

PIXELS = f"({WIDGET}.review.editor.mask?.reduce((a, b) => a + b) ?? null)"
CASE = f"{WIDGET}.review.detail.id"
KEPT = f"{WIDGET}.review.drafts.sending"


def draw(page, dy: float = 0) -> None:
    box = page.locator(".rv-pane canvas").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + dy
    page.mouse.move(x - 60, y)
    page.mouse.down()
    page.mouse.move(x + 40, y + 30, steps=4)
    page.mouse.up()


@pytest.fixture
def drawn(page, page_url):
    """Two strokes on the first case: its number, and how many pixels one and two strokes set."""
    enter(page, page_url)
    page.keyboard.press("b")
    draw(page)
    one = page.evaluate(PIXELS)
    draw(page, 70)
    both = page.evaluate(PIXELS)
    assert both > one > 0
    case = page.evaluate(CASE)
    yield case, one, both
    page.evaluate(f"{KEPT}")
    page.request.delete(f"{page_url}api/review/draft/{case}")


@pytest.mark.parametrize("key", ["ArrowRight", "n", " "])
def test_a_drawing_stays_when_the_reader_goes_on(page, page_url, drawn, key):
    case, _, both = drawn
    page.keyboard.press(key)
    settle(page)
    assert page.evaluate(CASE) != case and page.evaluate(PIXELS) is None
    assert page.locator(f".rv-row[data-id='{case}'] .rv-draft").is_visible()
    assert page.locator(".rv-drafts").inner_text().endswith("1")
    page.locator(".rv-drafts").click()
    settle(page)
    assert page.evaluate(CASE) == case and page.evaluate(PIXELS) == both
    assert page.locator(".rv-drafted").is_visible()
    if key == "n":
        page.keyboard.press("ArrowRight")
        settle(page)
        page.keyboard.press("z")  # the decision came last
        settle(page)
        assert page.evaluate(CASE) == case and page.evaluate(PIXELS) == both


def test_a_drawing_is_there_after_a_reload_with_its_undo(page, page_url, drawn):
    case, one, both = drawn
    page.evaluate(KEPT)
    enter(page, page_url)
    page.evaluate(f"{WIDGET}.review.goTo({case})")
    settle(page)
    assert page.evaluate(PIXELS) == both
    page.keyboard.press("z")
    assert page.evaluate(PIXELS) == one
    page.keyboard.press("y")
    assert page.evaluate(PIXELS) == both


def test_undo_finds_the_stroke_on_the_case_where_it_was_drawn(page, page_url, drawn):
    case, one, _ = drawn
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    settle(page)
    page.keyboard.press("z")
    settle(page)
    page.wait_for_function(f"{CASE} === {case} && {PIXELS} === {one}")
    assert "stroke" in page.locator(".rv-flash").inner_text()


def test_a_saved_drawing_is_no_draft_any_more(page, page_url, drawn, review_home):
    case, _, both = drawn
    page.keyboard.press("s")
    settle(page)
    page.wait_for_function(f"!{WIDGET}.review.drafts.cases.size")
    assert rows(review_home, "SELECT 1 FROM mask_drafts WHERE case_id = ?", case) == []
    assert page.locator(".rv-drafted").is_hidden() and not page.locator(".rv-drafts").count()
    assert page.evaluate(f"{WIDGET}.review.lesion.pixels.reduce((a, b) => a + b)") == both

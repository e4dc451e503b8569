"""Outside a session nothing in view gives the label away before the first decision, unless it is asked for."""

import pytest

from tests.app.review.conftest import STUDY, WIDGET, enter, rows, settle

CASE = f"{WIDGET}.review.detail.id"
LESION = f"Boolean({WIDGET}.review.lesion)"


@pytest.fixture
def masked(page, page_url, review_home):
    """An undecided case with an imported mask, on screen; its number."""
    found = rows(
        review_home,
        "SELECT c.id FROM cases c JOIN lesion_masks m ON m.case_id = c.id AND m.source = 'import' WHERE c.study = ? "
        "AND c.split = 'test' AND NOT EXISTS (SELECT 1 FROM lesion_masks n WHERE n.case_id = c.id AND n.version > 1) "
        "AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.case_id = c.id AND r.active = 1) ORDER BY c.id DESC",
        STUDY,
    )
    enter(page, page_url)
    page.evaluate(f"{WIDGET}.review.show.truth = false; {WIDGET}.review.goTo({found[0][0]})")
    settle(page)
    return found[0][0]


def test_the_imported_mask_waits_for_the_decision(page, masked):
    assert page.evaluate(LESION) is False and page.locator(".rv-waits").is_visible()
    assert page.locator(".rv-dice").inner_text() == "–", "no overlap with a mask that is not shown"
    page.keyboard.press("n")
    settle(page)
    page.evaluate(f"{WIDGET}.review.goTo({masked})")
    settle(page)
    assert page.evaluate(LESION) is True and page.locator(".rv-waits").is_hidden()
    page.keyboard.press("z")
    settle(page)


@pytest.mark.long
def test_the_imported_mask_is_shown_when_it_is_asked_for(page, masked):
    page.keyboard.press("m")
    page.wait_for_function(LESION)
    page.locator(".rv-dice").filter(has_not_text="–").wait_for()


@pytest.mark.long
def test_a_name_that_tells_the_label_waits_too(page, masked):
    telling = f"(() => {{ const r = {WIDGET}.review; r.detail.name = 'polyp-12.png'; r.redraw() }})()"
    page.evaluate(telling)
    title = page.locator(".rv-title")
    assert title.inner_text().replace("\n", "").startswith("Case ") and "polyp" not in title.get_attribute("title")
    page.evaluate(f"{WIDGET}.review.revealed.add({masked})")
    page.evaluate(telling)
    assert title.inner_text().replace("\n", "") == "polyp-12.png"

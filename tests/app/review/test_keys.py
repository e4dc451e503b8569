"""Keys go where the reader looks: Space from anywhere, decisions only from the image, a slip is asked about."""

import pytest

from tests.app.review.conftest import WIDGET, enter, rows, settle

CASE = f"{WIDGET}.review.detail.id"
SLIDER = ".rv-slider input[aria-label=Opacity]"
COUNT = "SELECT count(*) FROM reviews"


@pytest.mark.long
def test_a_decision_is_not_taken_from_a_menu(page, page_url, review_home):
    control = ".rv-filters select[title='Which cases']"
    enter(page, page_url)
    case, before = page.evaluate(CASE), rows(review_home, COUNT)
    page.locator(control).focus()
    page.keyboard.press("a")
    settle(page)
    assert rows(review_home, COUNT) == before and page.evaluate(CASE) == case
    assert page.locator(control).input_value() == "", "the letter has not changed the control either"
    said = page.locator(".rv-flash").inner_text()
    assert said.startswith("A was ignored") and "Click the image" in said
    assert page.locator(".rv-nokeys").count() == 1
    page.locator(".rv-view").click()
    page.keyboard.press("a")
    settle(page)
    assert rows(review_home, f"{COUNT} WHERE case_id = ?", case)[0][0] >= 1 and page.evaluate(CASE) != case
    assert page.locator(".rv-nokeys").count() == 0
    page.keyboard.press("z")
    settle(page)


@pytest.mark.long
@pytest.mark.parametrize("key", ["n", "a", "u"])
def test_a_decision_is_taken_after_a_slider_had_the_focus(page, page_url, review_home, key):
    enter(page, page_url)
    case, opacity = page.evaluate(CASE), page.locator(SLIDER)
    opacity.click()
    assert page.evaluate("document.activeElement.type") == "range" and page.locator(".rv-nokeys").count() == 0
    value = opacity.input_value()
    page.keyboard.press(key)
    settle(page)
    assert rows(review_home, f"{COUNT} WHERE case_id = ?", case)[0][0] >= 1 and page.evaluate(CASE) != case
    assert page.evaluate("document.activeElement.className") == "rv-view" and opacity.input_value() == value
    page.keyboard.press("z")
    settle(page)


@pytest.mark.long
def test_space_is_the_next_unread_case_from_the_image_and_from_a_slider(page, page_url):
    enter(page, page_url)
    unread = f"{WIDGET}.review.list.rows.get({CASE}).row.decision === null"
    for control in (SLIDER, ".rv-view"):
        case = page.evaluate(CASE)
        page.locator(control).focus()
        page.keyboard.press(" ")
        settle(page)
        assert page.evaluate(CASE) != case and page.evaluate(unread), control
        assert page.evaluate("document.activeElement.className") == "rv-view", control
    case = page.evaluate(CASE)
    page.keyboard.press("c")
    page.keyboard.type("two words")
    assert page.locator(".rv-comment").input_value() == "two words" and page.evaluate(CASE) == case
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "rv-view"


def test_space_on_a_focused_button_presses_that_button(page, page_url):
    enter(page, page_url)
    case, toggle = page.evaluate(CASE), page.get_by_role("button", name="Region", exact=True)
    before = toggle.get_attribute("aria-pressed")
    toggle.focus()
    page.keyboard.press(" ")
    settle(page)
    assert toggle.get_attribute("aria-pressed") != before and page.evaluate(CASE) == case
    page.keyboard.press(" ")
    assert toggle.get_attribute("aria-pressed") == before and page.evaluate(CASE) == case
    page.locator("#tab-review-button").focus()
    page.keyboard.press(" ")
    settle(page)
    assert page.evaluate(CASE) == case


@pytest.mark.long
def test_space_goes_on_after_a_look_at_another_tab(page, page_url):
    enter(page, page_url)
    case = page.evaluate(CASE)
    page.get_by_role("tab", name="Results", exact=True).click()
    page.get_by_role("tab", name="Review", exact=True).click()
    page.locator(".rv-view").wait_for()
    page.evaluate("document.activeElement.blur()")  # as after a click beside everything: the page itself has the keys
    page.keyboard.press(" ")
    page.wait_for_function(f"{CASE} !== {case}")
    assert page.get_by_role("tab", name="Review", exact=True).get_attribute("aria-selected") == "true"


@pytest.mark.long
def test_the_worklist_shows_which_case_space_goes_to(page, page_url, review_home):
    enter(page, page_url)
    marked = "Number(document.querySelector('.rv-row:has(.rv-next)').dataset.id)"
    for _ in range(3):
        page.wait_for_function(f"document.querySelectorAll('.rv-next').length === 1 && {marked} !== {CASE}")
        wanted = page.evaluate(marked)
        page.keyboard.press(" ")
        settle(page)
        assert page.evaluate(CASE) == wanted


@pytest.mark.long
def test_a_decision_changed_within_a_second_is_asked_about(page, page_url, review_home):
    enter(page, page_url)
    last = page.evaluate(f"[...{WIDGET}.review.list.rows.keys()].at(-1)")
    page.evaluate(f"{WIDGET}.review.goTo({last})")
    settle(page)
    said = "SELECT decision FROM reviews WHERE case_id = ? ORDER BY id"
    page.keyboard.press("n")  # the last case of the list stays on screen
    page.keyboard.press("a")
    page.locator("dialog.ask").wait_for()
    assert "less than a second ago" in page.locator("dialog.ask").inner_text()
    page.locator("dialog.ask").get_by_role("button", name="Keep Normal").click()
    settle(page)
    assert rows(review_home, said, last) == [("normal",)]
    page.evaluate(f"{WIDGET}.review.last.at -= 2000")  # two seconds later it is a change of mind
    page.keyboard.press("a")
    settle(page)
    assert rows(review_home, said, last) == [("normal",), ("abnormal",)]
    page.keyboard.press("z")
    page.keyboard.press("z")
    settle(page)


@pytest.mark.long
def test_a_key_held_down_decides_nothing_more(page, page_url, review_home):
    enter(page, page_url)
    before = rows(review_home, COUNT)[0][0]
    page.keyboard.down("n")
    for _ in range(5):
        page.keyboard.down("n")  # a repeat, as a held key sends them
    page.keyboard.up("n")
    settle(page)
    assert rows(review_home, COUNT)[0][0] == before + 1
    page.keyboard.press("z")
    settle(page)

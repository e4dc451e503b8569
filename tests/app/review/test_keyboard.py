"""Reading by keyboard alone: decisions, undo, comments, changed keys; keys go where the reader looks."""

import pytest

from core.studio.db import audit, opening
from tests.app.conftest import arrived, routed
from tests.app.review.conftest import CASES, UNREAD, WIDGET, come_back, enter, rows, settle


def test_fifty_cases_by_keyboard_alone(page, page_url, review_home):
    enter(page, page_url, UNREAD)
    order = page.evaluate(f"[...{WIDGET}.review.list.rows.keys()]")
    page.evaluate(
        f"""{WIDGET}.review.painted = (r) => {{
            const now = r.detail.id; window.seen ||= [];
            if (window.seen.at(-1) !== now) window.seen.push(now) }}; {WIDGET}.review.draw()"""
    )
    keys = ["n", "a", "u"] * (CASES // 3 + 1)
    for start in range(0, CASES, 10):  # ten keys, hit fast
        for key in keys[start : start + 10]:
            page.keyboard.press(key)
        settle(page)
    ours = f"case_id IN (SELECT id FROM cases WHERE study = '{UNREAD}')"
    said = rows(review_home, f"SELECT case_id, decision FROM reviews WHERE {ours} ORDER BY id")
    words = {"n": "normal", "a": "abnormal", "u": "unsure"}
    assert [r[0] for r in said] == order[:CASES]
    assert [r[1] for r in said] == [words[k] for k in keys[:CASES]]
    shown = page.evaluate("window.seen")
    assert shown[: len(order)] == order[: len(shown)]
    assert page.locator(".rv-tally b").inner_text() == f"{CASES} of {CASES} read"
    events = rows(review_home, f"SELECT shown, seconds FROM events WHERE kind = 'decision' AND {ours}")
    assert len(events) == CASES and all('"run":' in shown and seconds is not None for shown, seconds in events)
    for _ in range(3):
        page.keyboard.press("z")
    page.keyboard.press("y")
    settle(page)
    assert rows(review_home, f"SELECT count(*) FROM reviews WHERE active = 1 AND {ours}")[0][0] == CASES - 2
    store = opening.open(str(review_home))
    assert audit.verify(store)["ok"]


@pytest.mark.long
def test_typing_a_comment_decides_nothing_and_is_kept(page, page_url, review_home):
    enter(page, page_url)
    count = rows(review_home, "SELECT count(*) FROM reviews")[0][0]
    case = page.evaluate(f"{WIDGET}.review.detail.id")
    page.keyboard.press("c")
    page.keyboard.type("an unusual naevus <b>")
    assert rows(review_home, "SELECT count(*) FROM reviews")[0][0] == count
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    settle(page)
    assert rows(review_home, "SELECT case_id, decision, comment FROM reviews ORDER BY id DESC LIMIT 1") == [
        (case, "abnormal", "an unusual naevus <b>")
    ]
    assert page.locator(".rv-comment").input_value() != "an unusual naevus <b>"


@pytest.mark.long
def test_what_is_read_again_for_a_window_that_is_taken_up_holds_no_key_up_and_undoes_none(page, page_url, review_home):
    enter(page, page_url)
    first = page.evaluate(f"{WIDGET}.review.detail.id")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator("#tab-study-button").click()
    with page.expect_response("**/api/review/open*"):
        page.locator("#tab-review-button").click()
    settle(page)
    assert not [url for url in asked if "/api/review/list" in url], "a change of tab is no return of the window"
    late = []
    routed(page, f"**/api/review/case/{first}?*", lambda route: late.append(route), times=1)
    with page.expect_request(f"**/api/review/case/{first}?*"):
        come_back(page)
    page.keyboard.press("u")  # the first answer, of before this key, is still on its way
    page.wait_for_function(f"{WIDGET}.review.detail.id !== {first}", timeout=15_000)
    second = page.evaluate(f"{WIDGET}.review.detail.id")
    with page.expect_response("**/api/review/counts*"):  # asked for again, now that the hands rest
        late[0].continue_()
    settle(page)
    assert page.evaluate(f"{WIDGET}.review.detail.id") == second
    assert page.locator(f".rv-row[data-id='{first}'] .rv-mark").get_attribute("title") == "unsure"


@pytest.mark.long
def test_keys_can_be_changed_and_stay_changed(page, page_url):
    enter(page, page_url)
    page.keyboard.press("?")
    page.locator(".rv-keys > div", has_text="Invert the image").locator("button").click()
    page.keyboard.press("$")
    page.locator(".rv-help .main").click()
    with page.expect_response(lambda r: r.url.endswith("api/review/settings") and "show" in r.request.post_data_json):
        page.keyboard.press("$")
    assert page.evaluate(f"{WIDGET}.review.show.invert") is True
    enter(page, page_url)
    page.keyboard.press("$")
    assert page.evaluate(f"{WIDGET}.review.show.invert") is True
    page.keyboard.press("i")
    assert page.evaluate(f"{WIDGET}.review.show.invert") is True


@pytest.mark.long
@pytest.mark.parametrize(("change", "slow"), [("detector", "list"), ("detector", "case"), ("order", "list")])
def test_what_was_asked_for_before_a_decision_never_comes_after_it(page, page_url, review_home, change, slow):
    """Another detector, or another order, and at once a decision: an answer of before it is late, and shows nothing."""
    enter(page, page_url)
    page.keyboard.press("u")
    settle(page)
    first, run = page.evaluate(f"[{WIDGET}.review.detail.id, {WIDGET}.review.run]")
    was = page.evaluate(f"{WIDGET}.review.list.rows.get({first}).row.decision")
    key, word = ("n", "normal") if was == "abnormal" else ("a", "abnormal")
    held = []
    for address in ("list", "counts") if slow == "list" else (f"case/{first}",):
        routed(page, f"**/api/review/{address}?*", lambda route: held.append((route, route.fetch())), times=1)
    if change == "detector":
        page.keyboard.press("d")
    else:
        page.evaluate(f"void {WIDGET}.review.list.change({{sort: 'name', desc: 0}})")
    arrived(page, held, 2 if slow == "list" else 1)
    page.keyboard.press(key)
    page.wait_for_timeout(1500)  # enough for the decision, if it does not wait for what came before it
    for route, answer in held:
        route.fulfill(response=answer)
    settle(page)
    page.wait_for_timeout(500)
    said = rows(review_home, "SELECT case_id, decision FROM reviews ORDER BY id DESC LIMIT 1")[0]
    assert said == (first, word)
    assert page.evaluate(f"{WIDGET}.review.detail.id") != first
    assert (page.evaluate(f"{WIDGET}.review.run") != run) is (change == "detector")
    counts = page.evaluate(
        f"fetch('/api/review/counts?' + new URLSearchParams({WIDGET}.review.list.params())).then((r) => r.json())"
    )
    assert page.evaluate(f"{WIDGET}.review.list.counts") == counts
    assert page.locator(f".rv-row[data-id='{first}'] .rv-mark").get_attribute("title") == word


@pytest.mark.long
def test_the_tally_counts_a_decision_on_a_case_that_is_not_among_the_rows(page, page_url):
    """As where the list is long, or in an order that its case has not come up in yet."""
    enter(page, page_url)
    first = page.evaluate(f"{WIDGET}.review.detail.id")
    was = page.evaluate(f"{WIDGET}.review.list.rows.get({first}).row.decision")
    page.evaluate(f"{WIDGET}.review.list.rows.delete({first})")
    with page.expect_response("**/api/review/counts?*") as answered:
        page.keyboard.press("n" if was == "abnormal" else "a")
    settle(page)
    counts = answered.value.json()
    page.wait_for_function(f"(c) => JSON.stringify({WIDGET}.review.list.counts) === JSON.stringify(c)", arg=counts)
    assert page.locator(".rv-tally b").inner_text() == f"{counts['read']} of {counts['total']} read"


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

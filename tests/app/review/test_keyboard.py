"""Reading by keyboard alone: decisions, undo, comments, keys of one's own."""

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

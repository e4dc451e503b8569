"""Reading sessions and blind studies in the browser: nothing is shown before the reader commits."""

from __future__ import annotations

import json
import os
import random

import pytest
from sklearn.metrics import cohen_kappa_score

from core.studio.db import audit, opening
from core.studio.review import people, sessions
from core.studio.review.agreement import agreement
from tests.app.conftest import Served, arrived, routed
from tests.app.review.conftest import CASES, SESSIONS, STUDY, VEILED, WIDGET, enter, make_home, rows, settle
from tests.app.test_accounts import PASSWORD
from tests.app.test_accounts import enter as sign_in
from tests.studio.review.conftest import asks

CASE = f"{WIDGET}.review.detail.id"
SEEDS = range(20) if os.environ.get("PMSACL_ALL_SEEDS") else range(1)


def begin(page, count: int | None = None) -> None:
    page.get_by_role("button", name="Start a reading session").click()
    dialog = page.locator("dialog.ask")
    if count:
        dialog.get_by_label("How many").fill(str(count))
    dialog.get_by_role("button", name="Start").click()
    page.wait_for_function(f"{WIDGET}.review.setup?.session && {WIDGET}.review.picture")
    settle(page)


def distract(page, draw: random.Random) -> None:
    """A click where the focus stays away from the image: a slider, a menu of the list, another tab and back.

    Space would press a menu or a tab that is focused, so from there Escape returns to the image first.
    """
    what = draw.choice(["slider", "slider", "menu", "tab", "none"])
    if what == "slider":
        sliders = page.locator(".rv-slider input[type=range]:visible")
        sliders.nth(draw.randrange(sliders.count())).click()
    elif what == "menu":
        page.locator(".widget-review select[aria-label='Which cases']").focus()
    elif what == "tab":
        page.get_by_role("tab", name=draw.choice(["Study", "MedMix", "Results"]), exact=True).click()
        page.get_by_role("tab", name="Review", exact=True).click()
    if what in ("menu", "tab"):
        page.keyboard.press("Escape")


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_fifty_blind_cases_by_keyboard_with_clicks_between(page, page_url, review_home, seed):
    enter(page, page_url, SESSIONS)
    begin(page)
    number = page.evaluate(f"{WIDGET}.review.setup.session.id")
    draw, meant, pressed = random.Random(seed), {}, 0
    for _ in range(CASES):
        distract(page, draw)
        page.keyboard.press(" ")  # the next unread case, wherever the focus was
        settle(page)
        name, key = page.evaluate(f"{WIDGET}.review.detail.name"), draw.choice("nau")
        assert name not in meant, "each case comes once"
        meant[name] = {"n": "normal", "a": "abnormal", "u": "unsure"}[key]
        page.keyboard.press(key)
        settle(page)
        pressed += 2
    assert pressed == 2 * CASES and page.locator(".rv-tally b").inner_text() == f"{CASES} of {CASES} read"
    listed = page.request.get(f"{page_url}api/review/list?study={SESSIONS}").json()["rows"]
    assert {r["name"]: r["decision"] for r in listed} == meant, "none lost, none on a wrong case"
    held = rows(review_home, "SELECT first_review FROM reading_sessions WHERE id = ?", number)[0][0]
    stored = rows(review_home, "SELECT stage, shown FROM reviews WHERE id > ? AND reader = 'reader'", held)
    assert len(stored) == CASES and all(s == "first" and json.loads(shown) == {"blind": True} for s, shown in stored)
    page.get_by_role("button", name="End session").click()
    page.locator("dialog.rv-over").wait_for()


@pytest.mark.long
def test_a_blind_session_tells_nothing_and_ends_with_a_summary(page, page_url, review_home):
    enter(page, page_url, SESSIONS)
    real = rows(review_home, "SELECT id, name, sha256 FROM cases WHERE study = ? AND split = 'test'", SESSIONS)
    begin(page, 6)
    shown = page.evaluate(f"[...{WIDGET}.review.list.rows.values()].map((r) => r.row.name)")
    assert len(shown) == 6 and all(name.startswith("Case ") for name in shown)
    assert page.locator(".rv-veil").is_visible() and not page.locator(".rv-ai").is_visible()
    answers = []
    page.on("response", lambda r: answers.append(r) if "/api/review/" in r.url or "/api/case/" in r.url else None)
    page.reload()
    page.wait_for_function(f"{WIDGET}?.review?.picture")
    assert page.evaluate(f"[...{WIDGET}.review.list.rows.values()].map((r) => r.row.name)") == shown, "the same session"
    page.get_by_role("tab", name="Study", exact=True).click()
    page.get_by_text("A blind session is open").wait_for()
    html = page.content()
    assert not any(name in html or sha[:10] in html for _, name, sha in real)
    page.get_by_role("button", name="Continue reading").click()
    ids = page.evaluate(f"[...{WIDGET}.review.list.rows.keys()]")
    assert not set(ids) & {row[0] for row in real}
    for key in "nau":
        page.keyboard.press(key)
        settle(page)
        assert page.locator(".rv-ai").is_visible(), "after the decision the reading is shown"
        page.keyboard.press(" ")
        settle(page)
    for answer in answers:
        about = json.dumps(answer.headers) + answer.url
        assert not [x for _, name, sha in real for x in (name, sha[:10]) if x in about], about
    page.get_by_role("button", name="End session").click()
    summary = page.locator("dialog.rv-over")
    summary.wait_for()
    text = summary.inner_text()
    for part in ("3 of 6 cases", "Time per case", "Your specificity", "Agreement with the detector"):
        assert part in text
    prints(page, summary, [*shown, "3 of 6 cases", "not read", "blind first, shuffled, neutral names"])
    summary.get_by_role("button", name="Close").click()
    assert page.evaluate(f"{WIDGET}.review.setup.session") is None and page.locator(".rv-ai").is_visible()
    page.get_by_role("button", name="Start a reading session").click()
    page.get_by_label("Earlier sessions").select_option(index=1)
    prints(page, page.locator("dialog.rv-over"), shown)
    page.locator("dialog.rv-over").get_by_role("button", name="Close").click()
    page.locator("dialog.ask").get_by_role("button", name="Cancel").click()


def prints(page, summary, parts: list[str]) -> None:
    """The session's report opens from its summary, on white, with all of `parts`."""
    page.evaluate("() => { window.printed = 0; window.print = () => { window.printed += 1 } }")
    summary.get_by_role("button", name="Report", exact=True).click()
    page.wait_for_function("window.printed === 1")
    page.emulate_media(media="print")
    sheet = page.locator(".rv-report")
    assert sheet.is_visible() and not page.locator("#rooms").is_visible() and not summary.is_visible()
    if folder := os.environ.get("PMSACL_SHOTS"):
        page.screenshot(path=f"{folder}/session.png", full_page=True)
    text = sheet.inner_text()
    about = [
        "Reader",
        SESSIONS,
        "All test cases: 6 cases",
        "Begun",
        "Ended",
        "median",
        "Reader’s specificity",
        "version",
    ]
    assert not [part for part in [*about, *parts, "research use"] if part not in text], text
    assert sheet.locator("tbody tr").count() >= 6
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator(".rv-report").count() == 0


@pytest.mark.long
def test_the_study_tab_is_covered_until_the_session_is_ended_there(page, page_url):
    enter(page, page_url, SESSIONS)
    begin(page, 2)
    page.get_by_role("tab", name="Study", exact=True).click()
    page.get_by_text("A blind session is open").wait_for()
    assert not page.locator(".study-main .there").is_visible() and not page.locator(".study-main .tile").count()
    page.get_by_role("button", name="End the session").click()
    page.locator(".study-main .there").wait_for()
    page.locator(".study-main .tile").first.wait_for()
    page.get_by_role("tab", name="Review", exact=True).click()
    page.wait_for_function(f"{WIDGET}.review.setup && !{WIDGET}.review.setup.session")


@pytest.mark.long
def test_a_session_ends_after_the_decision_that_is_on_its_way(page, page_url):
    enter(page, page_url, SESSIONS)
    begin(page, 2)
    held, order = [], []
    routed(page, "**/api/review/decide", lambda route: held.append(route))
    page.on("request", lambda r: order.append(r.url.rpartition("/")[2]) if r.method == "POST" else None)
    page.keyboard.press("n")
    arrived(page, held)
    page.get_by_role("button", name="End session").click()
    page.wait_for_timeout(300)
    assert "end" not in order
    held[0].continue_()
    summary = page.locator("dialog.rv-over")
    summary.wait_for()
    assert "1 of 2 cases" in summary.inner_text() and order.index("end") > order.index("decide")
    summary.get_by_role("button", name="Close").click()


@pytest.mark.long
def test_a_key_of_before_a_session_decides_nothing_in_it(page, page_url, review_home):
    """Its first case is one that the reader has not seen when the key is pressed."""
    enter(page, page_url, SESSIONS)
    last = rows(review_home, "SELECT max(id) FROM reviews")[0][0] or 0
    held = []
    routed(page, "**/api/reading/start", lambda route: held.append(route))
    page.get_by_role("button", name="Start a reading session").click()
    page.locator("dialog.ask").get_by_role("button", name="Start").click()
    arrived(page, held)
    page.locator("dialog.ask").wait_for(state="detached")
    page.keyboard.press("n")
    held[0].continue_()
    page.get_by_text("“Normal” was not stored: another list was opened").first.wait_for()
    page.wait_for_function(f"{WIDGET}.review.setup?.session && {WIDGET}.review.picture")
    settle(page)
    assert rows(review_home, "SELECT id FROM reviews WHERE id > ?", last) == []
    page.get_by_role("button", name="End session").click()
    page.locator("dialog.rv-over").get_by_role("button", name="Close").click()


@pytest.mark.long
def test_turning_blind_reading_off_shows_at_once(page, page_url):
    def turn(on: bool):
        answer = page.request.post(f"{page_url}api/review/settings", data={"study": VEILED, "blind": on})
        assert answer.ok

    enter(page, page_url, VEILED)
    try:
        turn(True)
        page.locator(".rv-veil").wait_for(state="visible")
        assert page.evaluate(f"[...{WIDGET}.review.list.rows.values()][0].row.name").startswith("Case ")
        turn(False)
        page.locator(".rv-ai").wait_for(state="visible")
        assert not page.evaluate(f"[...{WIDGET}.review.list.rows.values()][0].row.name").startswith("Case ")
    finally:
        turn(False)


@pytest.mark.long
def test_two_blind_readers_see_no_score_before_they_commit(browser, tmp_path):
    home = make_home(tmp_path, 6)
    store = opening.open(str(home))
    for name in ("ann", "ben"):
        people.add_reader(store, name, PASSWORD)
    sessions.set_blind(store, STUDY, True, "root")
    cases = store.query("SELECT * FROM cases WHERE split = 'test'")
    server = Served(home, "--readers")
    try:
        pages = [sign_in(browser, server.url, name, PASSWORD) for name in ("ann", "ben")]
        for page in pages:
            enter(page, server.url)
            html = page.content()
            assert not page.locator(".rv-ai").is_visible() and page.locator(".rv-veil").is_visible()
            assert not any(c["name"] in html for c in cases)
            # Where the lesion is can be said before the score is shown; a mask cannot be drawn, and the page says so.
            page.keyboard.press("b")
            page.locator(".toast").filter(has_text="You can mark a location now").wait_for()
            page.keyboard.press("'")
            page.locator(".rv-pane canvas").first.click()
            page.keyboard.press("1")
            settle(page)
            assert "point" in page.locator(".rv-findings li").inner_text() and not page.locator(".rv-ai").is_visible()
            listed = page.request.get(f"{server.url}api/review/list?study={STUDY}").json()["rows"]
            assert not {r["id"] for r in listed} & {c["id"] for c in cases} and len(listed) == len(cases)
        words = {"ann": "nanann", "ben": "naaaun"}
        for i in range(6):
            for page, name in zip(pages, words, strict=True):
                page.keyboard.press(words[name][i])
                settle(page)
                assert page.locator(".rv-ai").is_visible(), "after the commit the reading is shown"
                if i == 0:
                    page.keyboard.press("Control+z")
                    page.locator(".toast").filter(has_text="A blind first decision cannot be undone").wait_for()
                    assert page.locator(".rv-ai").is_visible()
                page.keyboard.press(words[name][i])  # the second decision
                settle(page)
        assert store.one("SELECT count(*) AS n FROM reviews")["n"] == 24
        long = {"n": "normal", "a": "abnormal", "u": "unsure"}
        said = []
        for page, name in zip(pages, words, strict=True):  # each in an order of the reader's own
            numbers = [r["id"] for r in page.request.get(f"{server.url}api/review/list?study={STUDY}").json()["rows"]]
            own = [asks(store, name, number=n).asked_case["id"] for n in numbers]
            said.append([long[word] for _, word in sorted(zip(own, words[name], strict=True))])
        assert agreement(store, STUDY)["pairs"][0]["kappa"] == pytest.approx(cohen_kappa_score(*said), abs=1e-12)
        assert audit.verify(store)["ok"]
        for page in pages:
            page.context.close()
    finally:
        server.stop()

"""What the page shows is of the study that is open: heading, dialogs, picture, decision and address."""

from __future__ import annotations

import re
import sqlite3

import pytest

from core.studio.db import opening
from core.studio.ingest import studies
from tests.app.conftest import Served, arrived, manage, routed, small_folder
from tests.studio.review.conftest import add_readings

pytestmark = pytest.mark.long

WIDGET = "document.querySelector('.widget-review')"
REVIEW = f"{WIDGET}.review"


@pytest.fixture(scope="module")
def two(own_home, tmp_path_factory):
    """A server on a home with two scored studies, `small` and `other`."""
    home = own_home("two")
    opened = opening.open(str(home))
    studies.import_study(opened, "other", small_folder(tmp_path_factory.mktemp("other") / "folder", 6, 3, 3), copy=True)
    for study in ("small", "other"):
        add_readings(opened, study, "padim")
    opened.close()
    server = Served(home)
    yield server
    server.stop()


def pick(page, name: str) -> None:
    page.locator("#study-picker input").click()
    page.get_by_role("option", name=name, exact=True).click()
    page.wait_for_function("(name) => window.Studio.study === name", arg=name)


def cases_of(server, study: str) -> set[int]:
    with sqlite3.connect(server.home / "studio.sqlite") as db:
        return {row[0] for row in db.execute("SELECT id FROM cases WHERE study = ?", [study])}


def reviews_of(server, study: str) -> list[tuple]:
    with sqlite3.connect(server.home / "studio.sqlite") as db:
        asked = "SELECT r.id, r.decision, r.active FROM reviews r JOIN cases c ON c.id = r.case_id WHERE c.study = ?"
        return db.execute(asked, [study]).fetchall()


def enter(page, url: str, study: str, **more: object) -> None:
    asked = "".join(f"&{key}={value}" for key, value in more.items())
    page.goto(f"{url}?study={study}&tab=review{asked}")
    page.wait_for_function(f"{WIDGET}?.review?.picture")


def test_another_study_and_a_reload_show_that_study_and_decide_on_it(page, two):
    enter(page, two.url, "small")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"new URL(location.href).searchParams.get('case') == {REVIEW}.detail?.id")
    assert page.evaluate(f"{REVIEW}.detail.id") in cases_of(two, "small")
    pick(page, "other")
    page.wait_for_function(f"{REVIEW}.detail?.study === 'other'")
    page.reload()
    page.wait_for_function(f"{WIDGET}?.review?.picture")
    others = cases_of(two, "other")
    assert page.evaluate(f"{REVIEW}.detail.id") in others
    assert int(re.search(r"case=(\d+)", page.url).group(1)) in others
    assert page.evaluate(f"[...{REVIEW}.list.rows.keys()].includes({REVIEW}.detail.id)")
    with page.expect_response("**/api/review/decide") as decided:
        page.keyboard.press("u")
    assert decided.value.request.post_data_json["case"] in others
    with sqlite3.connect(two.home / "studio.sqlite") as db:
        rows = db.execute(
            "SELECT c.study, f.study FROM reviews r JOIN cases c ON c.id = r.case_id JOIN runs f ON f.id = r.run"
        )
        assert rows.fetchall() == [("other", "other")]


def test_an_address_with_a_case_of_another_study_opens_the_list_of_the_study(page, two):
    strange = min(cases_of(two, "small"))
    enter(page, two.url, "other", case=strange)
    assert page.evaluate(f"{REVIEW}.detail.study") == "other"
    page.wait_for_function("(id) => !location.search.includes(`case=${id}`)", arg=strange)


def test_a_slow_answer_of_the_study_before_is_not_shown(page, two):
    enter(page, two.url, "small")
    held = []
    routed(page, "**/api/review/step?*study=small*", lambda route: held.append(route))
    page.keyboard.press("ArrowRight")
    arrived(page, held)  # its answer waits for the line below
    pick(page, "other")
    page.wait_for_function(f"{REVIEW}.detail?.study === 'other'")
    shown = page.evaluate(f"{REVIEW}.detail.id")
    held[0].continue_()
    page.evaluate(f"{WIDGET}.idle()")
    assert page.evaluate(f"[{REVIEW}.detail.id, {REVIEW}.detail.study]") == [shown, "other"]


@pytest.mark.parametrize("keys", [["u"], ["ArrowRight"], [" "], ["Control+z"], ["d"], ["a", "n", "Control+z"]])
def test_what_was_asked_for_in_one_study_is_not_done_in_another(page, two, keys):
    """It waits for a decision that is being stored; meanwhile another study is opened."""
    before = reviews_of(two, "other")
    enter(page, two.url, "small")
    held = []
    routed(page, "**/api/review/decide", lambda route: route.continue_() if held else held.append(route))
    page.keyboard.press("n")
    arrived(page, held)
    for key in keys:
        page.keyboard.press(key)
    pick(page, "other")
    page.wait_for_function(f"{REVIEW}.detail?.study === 'other'")
    shown = page.evaluate(f"[{REVIEW}.detail.id, {REVIEW}.run]")
    held[0].continue_()
    page.evaluate(f"{WIDGET}.idle()")
    assert page.evaluate(f"[{REVIEW}.detail.id, {REVIEW}.run]") == shown
    assert reviews_of(two, "other") == before
    if keys[0] in "ua":
        words = {"u": "Unsure", "a": "Abnormal"}[keys[0]]
        page.get_by_text(f"“{words}” was not stored: another list was opened").first.wait_for()


def test_the_heading_and_the_question_before_a_removal_name_the_open_study(page, two):
    page.goto(f"{two.url}?study=small&tab=study")
    title = page.locator(".study-main h2.title")
    title.filter(has_text="small").wait_for()
    # A job of the study: the card of what is being made stands above, with titles of its own.
    assert page.request.post(f"{two.url}api/study/small/look", data={}).ok
    page.locator(".study-main .plan li").first.wait_for(timeout=20_000)
    assert title.inner_text() == "small"
    pick(page, "other")
    title.filter(has_text="other").wait_for()
    assert page.locator(".study-main .plan").count() == 0, "what is made for another study is not of this one"
    manage(page, "Remove study")
    question = page.locator("dialog.ask").inner_text()
    assert "Remove “other”?" in question and "small" not in question and "12 cases" in question
    page.get_by_role("button", name="Keep it").click()


def test_a_late_overview_of_the_study_before_is_not_shown(page, two):
    page.goto(f"{two.url}?study=other&tab=study")
    title = page.locator(".study-main h2.title")
    title.filter(has_text="other").wait_for()
    held = []
    routed(page, "**/api/study/small/overview", lambda route: held.append(route))
    pick(page, "small")
    page.wait_for_function("!document.querySelector('.study-main h2.title').textContent")
    pick(page, "other")
    title.filter(has_text="other").wait_for()
    arrived(page, held)
    with page.expect_response("**/api/study/small/overview"):
        held[0].continue_()
    assert title.inner_text() == "other"

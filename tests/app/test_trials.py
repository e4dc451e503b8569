"""A whole trial in a browser: planned by its administrator, read by three readers of known skill, its report."""

from __future__ import annotations

import json
import os
import random
import zipfile
from pathlib import Path

import pytest

from core.studio.db import opening
from core.studio.review import people
from core.studio.trials import plan
from tests.app.conftest import Served, open_tab
from tests.app.review.conftest import STUDY, WIDGET, make_home, settle
from tests.app.test_accounts import PASSWORD, enter

READERS = ("Ada", "Bea", "Cyd")
CASES = 40
SKILL = {"unaided": 0.8, "aided": 3.0}  # by how many standard deviations a reader tells abnormal cases from normal ones


@pytest.fixture
def trial_server(tmp_path):
    home = make_home(tmp_path, CASES)
    store = opening.open(str(home))
    people.add_reader(store, "Root", PASSWORD, "administrator")
    for name in READERS:
        people.add_reader(store, name, PASSWORD)
    server = Served(home, "--readers")
    yield server, store
    server.stop()
    store.close()


def signed_in(browser, server, name: str):
    page = enter(browser, server.url, name, PASSWORD)
    page.wait_for_selector("#rooms", state="attached", timeout=120_000)
    return page


def read_list(page, server, store, reader: str) -> str:
    """Open the reader's list and rate every case of it as a reader of the arm's skill would; the arm."""
    open_tab(page, server.url, "Trials", STUDY)
    page.locator(".tr-page button.main").first.click()
    page.wait_for_function(f"{WIDGET}?.review?.setup?.trial && {WIDGET}.review.picture", timeout=120_000)
    settle(page)
    part = store.first(
        "SELECT p.arm, p.session FROM trial_parts p JOIN reading_sessions h ON h.id = p.session "
        "WHERE p.reader = ? AND h.ended IS NULL",
        [reader],
    )
    ordered = store.query(
        "SELECT o.case_id, c.truth FROM reading_session_cases o JOIN trial_cases c ON c.case_id = o.case_id "
        "WHERE o.session = ? ORDER BY o.position",
        [part["session"]],
    )
    shown = page.evaluate(f"[{WIDGET}.review.setup.runs.length, {WIDGET}.review.heat !== null]")
    assert shown == ([1, True] if part["arm"] == "aided" else [0, False])
    for case in ordered:
        draw = random.Random(f"{reader} {part['arm']} {case['case_id']}")
        told = draw.gauss(SKILL[part["arm"]] if case["truth"] == "abnormal" else 0, 1) - SKILL[part["arm"]] / 2
        rating = round(min(max(50 + 15 * told, 0), 100))
        page.get_by_label("Rating", exact=True).fill(str(rating))
        page.keyboard.press("a" if rating > 50 else "n")
        settle(page)
    page.get_by_role("button", name="End session").click()
    page.wait_for_function("window.Studio.tab === 'trials'")
    page.locator(".tr-page").get_by_text("list").first.wait_for()
    assert not page.locator("#toasts .bad").count(), "nothing went wrong"
    return part["arm"]


@pytest.mark.longest
@pytest.mark.timeout(1800)
def test_a_trial_of_three_readers_finds_the_effect_that_was_put_in(trial_server, browser, tmp_path):
    server, store = trial_server
    root = signed_in(browser, server, "Root")
    open_tab(root, server.url, "Trials", STUDY)
    for name in READERS:
        root.locator(".tr-page").get_by_label(name, exact=True).check()
    root.locator(".tr-page").get_by_label("Scale", exact=True).select_option("percent")
    root.locator(".tr-page").get_by_label("Name", exact=True).fill("Fundus")
    root.locator(".tr-page").get_by_label("Wash-out", exact=True).fill("0")
    root.get_by_role("button", name="Save plan").click()
    begun = root.locator(".tr-steps li.done").filter(has_text="Started")
    root.get_by_role("button", name="Start …").click()
    root.locator("dialog").get_by_role("button", name="Cancel").click()
    assert not begun.count(), "a start is confirmed first"
    root.get_by_role("button", name="Start …").click()
    root.locator("dialog").get_by_role("button", name="Start", exact=True).click()
    begun.wait_for()
    assert root.get_by_label("Progress of Ada").first.get_attribute("max") == str(CASES)
    if folder := os.environ.get("PMSACL_PICTURES"):
        root.screenshot(path=f"{folder}/trials.png")
    pages = {name: signed_in(browser, server, name) for name in READERS}
    for _ in range(2):
        for name, page in pages.items():
            read_list(page, server, store, name)
            if folder:
                page.screenshot(path=f"{folder}/trials-{name}.png")
    root.reload()
    open_tab(root, server.url, "Trials", STUDY)
    root.get_by_role("button", name="Close …").click()
    root.locator("dialog").get_by_role("button", name="Close").click()
    root.get_by_text("All files (ZIP)").wait_for()
    number = store.first("SELECT id FROM trials")["id"]
    given = root.request.get(f"{server.url}api/trials/{number}/report/zip")
    out = Path(folder or tmp_path) / "trial.zip"
    out.write_bytes(given.body())
    with zipfile.ZipFile(out) as file:
        found = json.loads(file.read("figures.json"))
    assert found["flow"]["analysed"] == {"normal": CASES // 2, "abnormal": CASES // 2}
    test = found["analysis"]["Area under the ROC curve"]["tests"]["both"]
    print(test)
    # Areas of Phi(0.8 / sqrt 2) = 0.71 and Phi(3 / sqrt 2) = 0.98 were put in: a difference of 0.27.
    assert -test["high"] < 0.27 < -test["low"] and test["p"] < 0.05
    frozen = store.one("SELECT after FROM events WHERE kind = 'trial-frozen'")
    assert json.loads(frozen["after"])["digest"] == store.first("SELECT digest FROM trials")["digest"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_list_opens_on_a_page_to_which_the_study_was_closed_before(trial_server, browser):
    """A reader whose page was open, and refused, when the trial began; nobody else is offered a plan to make."""
    server, store = trial_server
    run = store.first("SELECT id FROM runs WHERE kind = 'fit'")["id"]
    given = {"name": "Open", "readers": ["Ada", "Bea"], "run": run, "design": "sequential"}
    number = plan.make(store, STUDY, plan.TrialPlan.from_dict({**plan.plan_defaults(), **given}), "Root")
    other = signed_in(browser, server, "Cyd")
    open_tab(other, server.url, "Trials", STUDY)
    other.locator(".tr-page").get_by_text("You have no open list.").wait_for()
    plan.start(store, number, "Root")
    page = signed_in(browser, server, "Ada")
    open_tab(page, server.url, "Review", STUDY)
    page.locator(".rv-rows").get_by_text("Open your list in the room Trials").wait_for()
    page.locator("#tab-trials-button").click()
    page.get_by_role("button", name="Open list").click()
    page.wait_for_function(f"{WIDGET}.review.setup?.trial && {WIDGET}.review.picture", timeout=120_000)
    assert page.locator(".rv-ai").is_hidden(), "what has read the case is not said, nor that nothing has"


@pytest.mark.long
def test_a_plan_asks_for_what_it_needs(trial_server, browser):
    server, _ = trial_server
    root = signed_in(browser, server, "Root")
    open_tab(root, server.url, "Trials", STUDY)
    room = root.locator(".tr-page")
    room.get_by_text("In days.").wait_for()
    drawn = room.get_by_label("Normal cases", exact=True)
    assert drawn.is_hidden(), "asked for of a draw alone"
    room.get_by_label("Cases", exact=True).select_option("drawn")
    drawn.wait_for()
    room.get_by_label("Arms", exact=True).select_option("sequential")
    room.get_by_text("In days.").wait_for(state="hidden")

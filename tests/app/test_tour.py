"""The demo: the first minute, and the guided tour, whose every step shows what it speaks of at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.context import APP
from core.studio.db import opening
from core.studio.demo import study as demo
from core.studio.demo import tour
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from tests.app.conftest import Served

FIRST_CASE = """document.querySelector('#tab-review-button')?.getAttribute('aria-selected') === 'true'
  && document.querySelector('.widget-review')?.review?.picture
  && document.querySelector('.widget-review').review.heat"""


@pytest.fixture
def empty(tmp_path):
    """(server, store) of a home without a study, in which nothing is at work."""
    server = Served(tmp_path / "home")
    opened = opening.open(str(tmp_path / "home"))
    yield server, opened
    for job in jobs.list_jobs(opened, "queued", "running"):
        jobs.cancel(opened, job["id"])
    server.stop()
    opened.close()


@pytest.mark.long
def test_one_click_opens_the_demo_on_a_case_with_its_map_and_the_study_says_that_it_is_drawn(page, empty):
    server, opened = empty
    page.goto(server.url)
    page.get_by_role("button", name="Show me the demo").click()
    page.wait_for_function(FIRST_CASE)
    page.locator(".rv-offer").get_by_text("instead of").wait_for()
    page.locator("#tab-study-button").click()
    note = page.get_by_role("region", name="Demo study")
    assert "drawn" in note.inner_text() and "not results" in note.inner_text()
    with page.expect_response("**/api/study/demo"):
        note.get_by_role("button", name="Train it here").click()
    [training] = [j for j in jobs.list_jobs(opened, "queued", "running") if j["chain"][0]["step"] == "pretrain"]
    assert all(step["args"]["gives_way"] for step in training["chain"]), "own work goes first"


@pytest.mark.long
def test_what_is_made_can_be_stopped_where_it_is_said(page, empty):
    server, opened = empty
    page.goto(server.url)
    page.get_by_role("button", name="Show me the demo").click()
    page.wait_for_function(FIRST_CASE)
    job = demo.train(opened, "cpu")
    page.locator("#tab-study-button").click()
    card = page.locator(".study-main .plan")
    card.get_by_text("Train an encoder").wait_for()
    card.get_by_role("button", name="Stop").click()
    with page.expect_response(f"**/api/status/stop/{job}"):
        page.locator("dialog").get_by_role("button", name="Stop", exact=True).click()


@pytest.mark.long
def test_without_a_study_review_offers_nothing_that_needs_a_case(page, tmp_path):
    server = Served(tmp_path / "home")
    try:
        page.goto(server.url)
        page.wait_for_function("Boolean(window.Studio?.started)")
        page.locator("#tab-review-button").click()
        page.get_by_text("No case", exact=True).wait_for()
        for name in ("Learn from marks", "Save version", "Show", "Mark location"):
            assert page.locator(".rv-side").get_by_role("button", name=name, exact=True).count() == 0, name
    finally:
        server.stop()


STEPS = json.loads((APP / "widgets" / "tour" / "steps.json").read_text())["steps"]


@pytest.mark.timeout(1200)
def test_the_steps_take_about_six_minutes_and_end_on_what_was_learnt_and_the_readers_own_agreement():
    assert 240 <= sum(s["seconds"] for s in STEPS) <= 370
    assert {"medmix", "training", "clusters", "review"} <= {s["tab"] for s in STEPS}
    found, decided, learnt, own, last = STEPS[-5:]
    assert found["do"][-1] == {"found": True} and any("a" in act.get("press", []) for act in decided["do"])
    assert own["yours"] and last["yours"] and last["tab"] == "results"
    assert ".rv-before-after" in learnt["do"][-1]["wait"]
    assert all(a.get("seconds", 600) >= 60 for s in STEPS for a in s.get("do", []) if "wait" in a or "there" in a)
    assert all(s["title"] and s["text"] and s["at"] for s in STEPS)


@pytest.fixture(scope="module")
def toured(tmp_path_factory):
    """A server on a home that holds another study: the tour brings its own."""
    from core.studio.ingest import studies
    from tests.app.conftest import small_folder

    home: Path = tmp_path_factory.mktemp("tour") / "home"
    opened = opening.open(str(home))
    studies.import_study(opened, "mine", small_folder(tmp_path_factory.mktemp("mine") / "folder", 8, 2, 2), copy=True)
    opened.close()
    server = Served(home)
    yield server
    server.stop()


def at(page, step: int) -> None:
    """Waits until a step is shown and has done what it does; by selector, for the page's policy allows no eval."""
    page.wait_for_selector(
        f"body[data-shown='{step}']", state="attached", timeout=300_000
    )  # the page's policy has no eval


RING = """() => {
    const frame = document.querySelector('iframe');
    const r = frame.contentDocument.querySelector('#tour-ring')?.getBoundingClientRect();
    const view = frame.getBoundingClientRect();
    const bar = document.querySelector('.tour-bar').getBoundingClientRect();
    return r && {width: r.width, height: r.height, bottom: view.top + r.bottom, right: r.right, wide: view.width,
        bar: bar.top,
        type: parseFloat(getComputedStyle(document.querySelector('.tour-say p')).fontSize),
        words: document.querySelector('.tour-say').scrollHeight <= document.querySelector('.tour-bar').clientHeight};
}"""


@pytest.mark.timeout(1200)
@pytest.mark.longest
def test_all_steps_there_and_back_and_reset(page, toured):
    page.set_default_timeout(180_000)
    opened = opening.open(str(toured.home))
    page.goto(f"{toured.url}tour")
    for i, step in enumerate(STEPS):
        at(page, i)
        frame = page.frame_locator("iframe")
        assert page.locator(".tour-say h1").inner_text() == step["title"]
        assert frame.locator(f"#tab-{step['tab']}-button").get_attribute("aria-selected") == "true"
        page.evaluate(
            f"new Promise(go => (function look() {{ ({RING})()?.width > 60 ? go() : setTimeout(look, 50) }})())"
        )
        seen = page.evaluate(RING)
        assert seen["bottom"] <= seen["bar"] and seen["right"] <= seen["wide"], f"{i}: the bar covers nothing"
        assert seen["height"] > 25 and seen["type"] >= 21 and seen["words"]
        state = page.locator(".tour-state").inner_text()
        assert f"{i + 1} of {len(STEPS)}" in state and "left" not in state, "one time left at most: the studio's own"
        if step["title"] == "A lesion, found":
            shown = frame.locator(".rv-row[aria-current]").get_attribute("data-id")
            label = opened.first("SELECT label FROM cases WHERE id = ?", [int(shown)])["label"]
            assert label == "abnormal" and int(shown) == tour.found(opened)
        if step["title"] == "Your turn":
            page.locator(".tour-say p").filter(has_text="Of 1 read, you were right on 1").wait_for()
        if i + 1 < len(STEPS):  # by key and by button in turn
            page.keyboard.press("ArrowRight") if i % 2 else page.get_by_role("button", name="Next").click()
    assert page.get_by_role("button", name="Next").is_disabled()
    mine = opened.query("SELECT decision FROM reviews WHERE reader != ?", [demo.READER])
    assert [r["decision"] for r in mine] == ["abnormal"], "by one key, once"
    came = opened.setting(demo.CAME)
    assert {r["id"] for r in runs.list_runs(opened, "demo")} == set(came), "nothing is trained for the tour"
    # Back and forth again, and a reload stays where it was.
    for _ in range(5):
        page.keyboard.press("PageUp")
    at(page, len(STEPS) - 6)
    page.keyboard.press("PageDown")
    at(page, len(STEPS) - 5)
    page.reload()
    at(page, len(STEPS) - 5)
    page.get_by_role("button", name="Reset").click()
    assert runs.list_runs(opened, "demo"), "once is not enough"
    page.get_by_role("button", name="Press again").click()
    page.wait_for_selector("body[data-resets='1']", state="attached", timeout=180_000)
    at(page, 0)
    assert {r["id"] for r in runs.list_runs(opened, "demo")} == set(came)
    assert [s["id"] for s in opened.query("SELECT id FROM studies ORDER BY id")] == ["demo", "mine"]

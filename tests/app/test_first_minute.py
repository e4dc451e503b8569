"""The first minute: one click opens the demo on a scored case."""

import pytest

from core.studio.db import opening
from core.studio.demo import study as demo
from core.studio.jobs import queue as jobs
from tests.app.conftest import Served

pytestmark = pytest.mark.long
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

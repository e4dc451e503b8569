"""The first minute: what is being made and for how long, what can be tried meanwhile, then the first result."""

from __future__ import annotations

import re

import pytest

from core.studio.db import opening
from core.studio.db.store import now
from core.studio.demo import study as demo
from core.studio.ingest import studies
from core.studio.jobs import execution
from core.studio.jobs import queue as jobs
from core.studio.runs import pipeline
from tests.app.conftest import Served, small_folder
from tests.conftest import ARCH

pytestmark = pytest.mark.long


@pytest.fixture
def empty(tmp_path):
    """(server, store) of a home without a study, whose demo this process is drawing."""
    home = tmp_path / "home"
    opened = opening.open(str(home))
    demo.offer(opened, "cpu")
    job = execution.claim(opened, "long")["id"]
    execution.progress(opened, job, 0.25, "Drawing the demo study: 100 of 400")
    server = Served(home)
    yield server, opened, job
    server.stop()
    opened.close()


def test_the_first_minute_says_what_is_made_and_opens_on_the_first_result(page, empty, tmp_path):
    server, opened, drawing = empty
    page.goto(server.url)
    card = page.locator(".study-main .plan")
    card.get_by_role("heading", name="The demo study is being made").wait_for()
    assert re.search(r"about \d+ (min|s) left in all", card.locator(".left").inner_text())
    titles = card.locator("li .title").all_inner_texts()
    assert titles[0] == "Draw the images" and titles[1].startswith("First look")
    assert page.locator(".study-main .empty").is_hidden()
    box = card.bounding_box()
    assert box["y"] + box["height"] < 768, "all of it without scrolling"

    # It is drawn: the study opens, a look is under way, MedMix can be tried.
    study = studies.import_study(opened, "demo", small_folder(tmp_path / "drawn", 8, 2, 2)).study
    encoder = pipeline.create_untrained(opened, study, 32, arch=ARCH)
    fit = pipeline.create_fit(opened, encoder, "padim", name="First look")
    looking = jobs.submit(opened, pipeline.chain(None, [fit]), start=False)
    execution.advance(opened, drawing)
    assert execution.claim(opened, "long")["id"] == looking
    card.get_by_text("First look: paDiM").wait_for()
    card.get_by_role("button", name="Make lesions in MedMix").wait_for()
    assert page.evaluate("window.Studio.study") == "demo"
    for tab in ("Review", "Results"):
        said = page.locator(f"#tab-{tab.lower()}-button")
        said.evaluate("button => button.click()")  # as a script: nobody has used the page yet
        page.locator(".unscored:visible").filter(has_text="the first scores are being made").wait_for()
    page.locator("#tab-study-button").evaluate("button => button.click()")

    # The cases are scored: whoever has not touched the page yet sees the highest.
    case = opened.first("SELECT id FROM cases WHERE split = 'test' AND label = 'abnormal'")["id"]
    opened.execute(
        "INSERT INTO readings (run, case_id, score, score_roi, percentile, percentile_roi, created) "
        "VALUES (?, ?, 2, 2, 99, 99, ?)",
        [fit, case, now()],
    )
    for _ in range(2):  # fitted, and scored
        execution.advance(opened, looking)
    page.wait_for_function("document.querySelector('#tab-review-button').getAttribute('aria-selected') === 'true'")
    page.locator(".widget-review .rv-row").first.wait_for()
    page.goto(server.url)
    page.wait_for_function("document.querySelector('#tab-review-button')?.getAttribute('aria-selected') === 'true'")


def test_what_is_made_can_be_stopped_where_it_is_said(page, empty):
    server, opened, drawing = empty
    page.goto(server.url)
    page.locator(".plan").get_by_role("button", name="Stop").click()
    with page.expect_response("**/api/status/stop/*"):
        page.locator("dialog").get_by_role("button", name="Stop", exact=True).click()
    assert execution.wants(opened, drawing) == "cancel"
    execution.end(opened, drawing, "cancelled", "Cancelled")
    page.locator(".study-main .empty").wait_for()
    assert page.locator(".plan").is_hidden()


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

"""The bar and the list of runs say what goes on beside a training, and nothing of it when nothing does."""

from __future__ import annotations

import pytest

from core.studio.db import opening
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from tests.app.conftest import STUDY, Served

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def own(own_home):
    """A server on a home of its own: no worker of another test is there to take the jobs."""
    server = Served(own_home("queues"))
    yield server
    server.stop()


@pytest.fixture
def page_url(own) -> str:
    return own.url


@pytest.fixture
def two(own):
    """A training and an import, both held by this process; (store, the import's job)."""
    opened = opening.open(str(own.home))
    run = runs.create_run(opened, STUDY, "pretrain", "pmsacl", {})
    made = [
        jobs.submit(opened, [{"step": "pretrain", "run": run}], start=False),
        jobs.submit(opened, [{"step": "import", "args": {"study": STUDY}}], start=False),
    ]
    for job, queue, message in zip(
        made, ("long", "short"), ("pretrain 4 of 9", "Scoring 1 of 2 new cases"), strict=True
    ):
        assert jobs.claim(opened, queue)["id"] == job
        jobs.progress(opened, job, 0.4, message)
    opened.execute("UPDATE runs SET status = 'running' WHERE id = ?", [run])
    yield opened, made[1]
    for job in made:
        if jobs.get_job(opened, job)["status"] == "running":
            jobs.end(opened, job, "cancelled")
    runs.delete_run(opened, run)


def test_what_goes_on_beside_a_training_is_said(page, page_url, go, two):
    opened, importing = two
    go(page, page_url, "Training")
    page.wait_for_selector(".widget-training[data-ready]")
    sign, hint = page.locator("#at-work"), page.locator(".training-room .runs .hint")
    sign.filter(has_text="40 % · pretrain 4 of 9 · Scoring 1 of 2 new cases").wait_for()
    hint.filter(has_text="one running, also running: Scoring 1 of 2 new cases").wait_for()
    high = page.locator("#top").bounding_box()["height"]
    assert sign.evaluate("e => e.scrollWidth <= e.clientWidth"), "nothing is cut"
    jobs.advance(opened, importing)
    page.wait_for_function("!document.querySelector('#at-work').textContent.includes('Scoring')")
    assert sign.inner_text() == "40 % · pretrain 4 of 9" and hint.inner_text() == "one running"
    assert page.locator("#top").bounding_box()["height"] == high


def test_a_row_that_changes_while_it_is_pressed_is_chosen(page, page_url, go, two):
    opened, _ = two
    other = runs.create_run(opened, STUDY, "pretrain", "pmsacl", {}, name="the other")
    at_work = opened.one("SELECT id FROM runs WHERE status = 'running'")
    go(page, page_url, "Training")
    page.wait_for_selector(".widget-training[data-ready]")
    page.locator(f"tr[data-run='{other}']").click()
    row = page.locator(f"tr[data-run='{at_work['id']}']")
    job = opened.one("SELECT id FROM jobs WHERE status = 'running' AND chain LIKE '%pretrain%'")["id"]
    for target, sign, share in (
        (row.locator("progress"), f"tr.chosen[data-run='{at_work['id']}']", 0.6),
        (row.get_by_role("checkbox"), f"tr[data-run='{at_work['id']}'] input:checked", 0.8),
    ):
        target.hover()
        page.mouse.down()
        jobs.progress(opened, job, share, f"pretrain {share}")
        page.locator("#at-work").filter(has_text=f"pretrain {share}").wait_for()  # the page looked again, twice or more
        page.mouse.up()
        page.locator(sign).wait_for()
        page.wait_for_function(
            "([id, share]) => Math.abs(document.querySelector(`tr[data-run='${id}'] progress`).value - share) < 0.01",
            arg=[at_work["id"], share],
        )
    runs.delete_run(opened, other)

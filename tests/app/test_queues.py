"""The bar and the list of runs say what goes on beside a training, and nothing of it when nothing does."""

from __future__ import annotations

import pytest

from core.studio.db import store
from core.studio.jobs import execution
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from tests.app.conftest import STUDY, Served


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
    opened = store.open(str(own.home))
    run = runs.create_run(opened, STUDY, "pretrain", "pmsacl", {})
    made = [
        jobs.submit(opened, [{"step": "pretrain", "run": run}], start=False),
        jobs.submit(opened, [{"step": "import", "args": {"study": STUDY}}], start=False),
    ]
    for job, queue, message in zip(
        made, ("long", "short"), ("pretrain 4 of 9", "Scoring 1 of 2 new cases"), strict=True
    ):
        assert execution.claim(opened, queue)["id"] == job
        execution.progress(opened, job, 0.4, message)
    opened.execute("UPDATE runs SET status = 'running' WHERE id = ?", [run])
    yield opened, made[1]
    for job in made:
        if jobs.get_job(opened, job)["status"] == "running":
            execution.end(opened, job, "cancelled")
    runs.delete_run(opened, run)


def test_what_goes_on_beside_a_training_is_said(page, page_url, go, two):
    opened, importing = two
    go(page, page_url, "Training")
    page.wait_for_selector(".widget-training[data-ready]")
    sign, hint = page.locator("#at-work"), page.locator(".training-room .runs .hint")
    sign.filter(has_text="40 % · pretrain 4 of 9 · Scoring 1 of 2 new cases").wait_for()
    hint.filter(has_text="one at work, beside: Scoring 1 of 2 new cases").wait_for()
    high = page.locator("#top").bounding_box()["height"]
    assert sign.evaluate("e => e.scrollWidth <= e.clientWidth"), "nothing is cut"
    execution.advance(opened, importing)
    page.wait_for_function("!document.querySelector('#at-work').textContent.includes('Scoring')")
    assert sign.inner_text() == "40 % · pretrain 4 of 9" and hint.inner_text() == "one at work"
    assert page.locator("#top").bounding_box()["height"] == high

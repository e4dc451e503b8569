"""Jobs and the page: what goes on is said, and a server that is asked to end says what continues, or pauses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from core.studio.db import opening
from core.studio.demo import study as demo
from core.studio.ingest import studies
from core.studio.jobs import queue as jobs
from core.studio.review import boxes
from core.studio.runs import records as runs
from tests.app.conftest import STUDY, Served
from tests.conftest import plain_folder, wait
from tests.studio.jobs.conftest import WORKER

pytestmark = pytest.mark.long


SIGNALS = ["SIGTERM", *(pytest.param(name, marks=pytest.mark.longest) for name in ("SIGINT", "SIGHUP"))]


@pytest.fixture
def at_work(tmp_path):
    """at_work(*arguments): a server, and a job of half a minute beside it; (server, job, store)."""
    started: list = []

    def begin(*arguments: str):
        plain_folder(tmp_path / "images", 4, 1, 1)
        opened = opening.open(str(tmp_path / "home"))
        studies.import_study(opened, "tiny", tmp_path / "images")
        run = runs.create_run(opened, "tiny", "pretrain", "pmsacl", {})
        served = Served(tmp_path / "home", *arguments)
        job = jobs.submit(opened, [{"step": "pretrain", "run": run}], start=False)
        worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path / "home")], start_new_session=True)
        started.extend((served, worker, opened))
        wait(lambda: jobs.get_job(opened, job)["progress"] > 0)
        return served, job, opened

    yield begin
    served, worker, opened = started
    served.stop()
    worker.kill()
    worker.wait()
    opened.close()


@pytest.mark.parametrize("name", SIGNALS)
def test_it_says_what_goes_on_and_how_to_stop_it(at_work, name):
    served, job, opened = at_work()
    os.kill(served.process.pid, getattr(signal, name))
    assert served.process.wait(20) == 0
    last = served.log.read_text().splitlines()[-1]
    assert last.startswith(f"Job {job} (pretrain, ") and last.endswith(
        "continues without the page; `jobs stop` pauses all."
    )
    assert jobs.get_job(opened, job)["status"] == "running"


def test_the_demos_own_jobs_pause_with_the_server(at_work):
    served, job, opened = at_work()
    opened.set_setting(demo.OWN, [job])
    served.process.terminate()
    assert served.process.wait(20) == 0
    assert jobs.get_job(opened, job)["status"] == "paused" and opened.setting(demo.PAUSED) == [job]
    assert f"Paused at a checkpoint: job {job};" in served.log.read_text()


def test_with_stop_jobs_they_are_paused_within_ten_seconds(at_work):
    served, job, opened = at_work("--stop-jobs")
    started = time.monotonic()
    served.process.terminate()
    assert served.process.wait(20) == 0 and time.monotonic() - started < 10
    assert jobs.get_job(opened, job)["status"] == "paused"
    assert f"Paused at a checkpoint: job {job};" in served.log.read_text()


def test_it_ends_in_order_while_an_embedding_is_made(own_home):
    if missing := boxes.missing():
        pytest.skip(missing)
    home = own_home("embeds")
    opened = opening.open(str(home))
    cases = [row["id"] for row in opened.query("SELECT id FROM cases LIMIT 4")]
    opened.close()
    served = Served(home)
    head = {"Content-Type": "application/json", "Origin": served.url.rstrip("/")}
    body = json.dumps({"cases": cases}).encode()
    urllib.request.urlopen(urllib.request.Request(served.url + "api/review/boxes", body, head), timeout=60).close()
    served.process.terminate()
    assert served.process.wait(30) == 0, served.log.read_text()


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

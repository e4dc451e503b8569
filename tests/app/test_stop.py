"""The server is asked to end: it says which jobs go on and how to stop them; or pauses them within ten seconds."""

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
from tests.app.conftest import Served
from tests.conftest import plain_folder, wait
from tests.studio.jobs.test_worker import SLOW

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
        worker = subprocess.Popen([sys.executable, "-c", SLOW, str(tmp_path / "home")], start_new_session=True)
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
        "goes on without the page; `jobs stop` pauses all."
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

"""All jobs are paused within ten seconds, whatever they do; and a worker whose home is gone ends and leaves nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time

import pytest

from core.studio.demo import study as demo
from core.studio.jobs import queue as jobs
from core.studio.jobs import stopping
from tests.conftest import wait
from tests.studio.jobs.conftest import WORKER, chain, status

DEAF = WORKER.replace("if work.should_stop():", "if False:")
WRITES = """
import sys, time
from pathlib import Path
from core.studio.db import opening
from core.studio.jobs import steps, worker
def writes(work):
    for i in range(600):
        if LOOKS and work.should_stop():
            break
        if i > 3:
            time.sleep(0.05)
            continue
        folder = work.store.home.runs / "a-run"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(i)).write_text("x")
        work.report({"step": i + 1, "steps": 600, "loss": i})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "checkpoint").write_text("x")
steps.load_step = lambda name: writes
worker._alone.set()
worker.run_queue(opening.open(sys.argv[1]))
"""


def begun(store, code: str, job: int) -> subprocess.Popen:
    child = subprocess.Popen([sys.executable, "-c", code, str(store.home.path)], start_new_session=True)
    wait(lambda: jobs.get_job(store, job)["status"] == "running" and jobs.get_job(store, job)["progress"] > 0)
    return child


@pytest.mark.slow
def test_what_runs_and_what_waits_is_paused_and_goes_on(store, run, slow):
    job, start = slow
    waiting = jobs.submit(store, [{"step": "score", "run": run}], start=False)
    process = start()
    assert f"Jobs {job} (pretrain, " in stopping.sentence(store) and "`jobs stop`" in stopping.sentence(store)
    assert stopping.pause(store) == [job, waiting]
    assert process.wait(60) == 0 and stopping.at_work(store) == []
    assert f"jobs {job}, {waiting}; `jobs resume N`" in stopping.sentence(store, [job, waiting])
    assert stopping.pause(store) == [] and stopping.sentence(store) == ""


@pytest.mark.slow
def test_a_step_that_does_not_look_is_ended_and_goes_on_later(store, run):
    job = jobs.submit(store, chain(run, "pretrain", "score"), start=False)
    child = begun(store, DEAF, job)
    started = time.monotonic()
    assert stopping.pause(store, seconds=1.0) == [job]
    assert time.monotonic() - started < 10 and child.wait(10) == -9
    assert status(store, job) == "paused"


@pytest.mark.slow
def test_the_demos_own_jobs_are_paused_and_go_on_at_the_next_start(store, run, slow, monkeypatch):
    job, start = slow
    process = start()
    assert demo.pause(store) == [] and status(store, job) == "running"
    store.set_setting(demo.OWN, [job])
    assert demo.pause(store) == [job] and process.wait(60) == 0
    monkeypatch.setattr(jobs, "ensure_worker", lambda store: [])
    demo.go_on(store)
    assert status(store, job) == "queued"
    jobs.cancel(store, job)
    demo.go_on(store)
    assert status(store, job) == "cancelled"


@pytest.mark.slow
@pytest.mark.parametrize("looks", [True, False])
def test_a_worker_whose_home_is_gone_ends_and_makes_nothing_anew(store, run, looks):
    jobs.submit(store, chain(run, "pretrain"), start=False)
    line = [sys.executable, "-c", WRITES.replace("LOOKS", str(looks)), str(store.home.path)]
    child = subprocess.Popen(line, start_new_session=True)
    wait((store.home.runs / "a-run" / "3").exists)
    shutil.rmtree(store.home.path)
    assert child.wait(10) in (1, -9)
    assert not store.home.path.exists()

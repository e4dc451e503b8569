"""A worker process that really runs, is paused, asked to end, and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from core.studio.db.leftovers import is_held
from core.studio.jobs import execution
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from tests.conftest import wait
from tests.studio.jobs.conftest import chain, status

SLOW = """
import sys, time
from core.studio.db import opening
from core.studio.jobs import queue as jobs
from core.studio.jobs import steps, worker
from core.engine.progress import Stopped
def slow(work):
    for i in range(600):
        if work.should_stop():
            raise Stopped
        work.report({"step": i, "steps": 600, "loss": i})
        time.sleep(0.05)
steps.step("pretrain", long=True)(slow)
steps.step("score")(lambda work: None)
import signal
signal.signal(signal.SIGTERM, lambda *_: worker._terminated.set())
worker.run_queue(opening.open(sys.argv[1]))
"""


@pytest.fixture
def slow(store, run):
    """A job of half a minute, in a worker process of its own."""
    started = []

    def start():
        started.append(subprocess.Popen([sys.executable, "-c", SLOW, str(store.home.path)], start_new_session=True))
        wait(lambda: jobs.get_job(store, job)["status"] == "running" and jobs.get_job(store, job)["progress"] > 0)
        return started[-1]

    job = jobs.submit(store, chain(run, "pretrain", "score"), start=False)
    yield job, start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.long
def test_a_running_job_is_paused_and_cancelled(store, run, slow):
    job, start = slow
    process = start()
    assert jobs.pause(store, job) == "running"
    wait(lambda: status(store, job) == "paused")
    assert process.wait(60) == 0
    assert runs.get_run(store, run)["status"] == "stopped"
    jobs.resume(store, job, start=False)
    start()
    jobs.cancel(store, job)
    wait(lambda: status(store, job) == "cancelled")


@pytest.mark.long
def test_kill_minus_nine_is_noticed_by_the_process_id(store, run, slow):
    job, start = slow
    process = start()
    assert jobs.reap(store) == []
    os.kill(process.pid, signal.SIGKILL)
    # Not waited for: as a zombie it still has its id, and yet it is dead.
    wait(lambda: jobs.reap(store) == [job])
    assert status(store, job) == "interrupted" == runs.get_run(store, run)["status"]
    jobs.resume(store, job, start=False)
    start()


@pytest.mark.slow
def test_a_worker_that_is_asked_to_end_leaves_its_job_to_be_resumed(store, slow):
    job, start = slow
    process = start()
    process.terminate()
    assert process.wait(60) == 0
    assert status(store, job) == "interrupted"


@pytest.mark.long
def test_a_job_outlives_the_process_that_started_it(store, run):
    """A worker started by ensure_worker has a session of its own."""
    job = jobs.submit(store, [{"step": "score", "run": run}], start=False)
    code = (
        "import sys; from core.studio.db import opening; from core.studio.jobs import queue; "
        "print(queue.ensure_worker(opening.open(sys.argv[1])))"
    )
    begun = subprocess.run(
        [sys.executable, "-c", code, str(store.home.path)], capture_output=True, text=True, timeout=60
    )
    [pid] = json.loads(begun.stdout)
    assert os.getsid(pid) == pid
    wait(lambda: status(store, job) == "failed")  # an encoder cannot be scored: the sentence is the worker's
    assert "no finished fit" in jobs.get_job(store, job)["error"]


@pytest.mark.long
def test_a_second_worker_leaves_when_one_works_and_one_waits(store, run, slow):
    job, start = slow
    start()
    jobs.submit(store, [{"step": "score", "run": run}], start=False)
    line = [sys.executable, "-m", "core.studio.jobs.worker", "--home", str(store.home.path)]
    waits = subprocess.Popen(line)
    wait(lambda: is_held(store.home.path / "worker.next"))
    third = subprocess.run(line, timeout=120)
    assert third.returncode == 0 and waits.poll() is None
    waits.kill()
    waits.wait()


@pytest.mark.slow
def test_only_one_of_many_processes_gets_the_job(store, run):
    jobs.submit(store, chain(run, "score"), start=False)
    jobs.submit(store, chain(run, "score"), start=False)
    code = (
        "import sys; from core.studio.jobs import execution; "
        "from core.studio.db import opening; s = opening.open(sys.argv[1]); sys.stdin.readline(); "
        "print(execution.claim(s) is not None, flush=True); sys.stdin.readline()"
    )
    line = [sys.executable, "-c", code, str(store.home.path)]
    started = [subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    won = [process.stdout.readline().strip() for process in started]
    assert sorted(won) == ["False", "False", "False", "True"]
    for process in started:
        process.kill()
        process.wait()
    assert len(jobs.reap(store)) == 1, "its process is gone"
    assert execution.claim(store) is not None

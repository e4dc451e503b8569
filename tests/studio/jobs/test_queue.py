"""Jobs without a neural network: steps of our own in a worker process that really runs, is paused, and is killed."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from core.studio.db import journal
from core.studio.db.store import NotFound, Store
from core.studio.jobs import execution, worker
from core.studio.jobs import queue as jobs
from core.studio.jobs.processes import is_alive, start_of
from core.studio.jobs.steps import STEPS
from core.studio.runs import records as runs
from tests.conftest import wait


@pytest.fixture
def run(store, tiny_study):
    return runs.create_run(store, tiny_study, "pretrain", "pmsacl", {})


def done_at_once(work):
    work.report({"step": 3, "steps": 4, "loss": 1.5, "list": [1, 2], "text": "x", "message": "said"})


@pytest.fixture
def steps(monkeypatch):
    """STEPS with ours instead of the real ones."""
    STEPS.names()
    table = {"pretrain": done_at_once, "fit": done_at_once, "score": done_at_once, "evaluate": done_at_once}
    monkeypatch.setattr("core.studio.jobs.steps._STEPS", table)
    return table


def chain(run, *verbs):
    return [{"step": verb, "run": run} for verb in verbs]


def test_a_chain_runs_to_its_end(store, run, steps):
    job = jobs.submit(store, chain(run, "pretrain", "score"), start=False)
    assert runs.get_run(store, run)["status"] == "queued"
    assert worker.run_queue(store) == 1
    row = jobs.get_job(store, job)
    assert (row["status"], row["position"], row["progress"], row["pid"]) == ("done", 1, 1.0, None)
    assert journal.metrics(store, run) == {"loss": [(3, 1.5)], "list_0": [(3, 1.0)], "list_1": [(3, 2.0)]}
    assert [line["line"] for line in journal.read_log(store, run)][0] == "said"


def test_jobs_run_in_the_order_in_which_they_came(store, run, steps):
    order = []
    steps["score"] = lambda work: order.append(work.args["n"])
    for n in range(3):
        jobs.submit(store, [{"step": "score", "run": run, "args": {"n": n}}], start=False)
    worker.run_queue(store)
    assert order == [0, 1, 2]


def test_a_failed_step_is_told_in_a_sentence(store, run, steps):
    def fails(work):
        raise ValueError("the batch is too small")

    steps["fit"] = fails
    job = jobs.submit(store, chain(run, "fit", "score"), start=False)
    worker.run_queue(store)
    row = jobs.get_job(store, job)
    assert (row["status"], row["error"], row["position"]) == ("failed", "the batch is too small", 0)
    assert runs.get_run(store, run)["status"] == "failed"
    steps["fit"] = done_at_once
    jobs.resume(store, job, start=False)
    worker.run_queue(store)
    assert jobs.get_job(store, job)["status"] == "done"


def test_out_of_memory_says_what_to_do():
    assert "smaller batch" in worker.explain(RuntimeError("CUDA out of memory. Tried to allocate"))
    assert worker.explain(KeyError("x")) == "KeyError: 'x'"


def test_submitting_nonsense(store, run):
    with pytest.raises(ValueError, match="pretrain"):
        jobs.submit(store, chain(run, "dance"), start=False)
    with pytest.raises(NotFound, match="nobody"):
        jobs.submit(store, chain("nobody", "fit"), start=False)
    with pytest.raises(ValueError, match="at least one"):
        jobs.submit(store, [], start=False)
    job = jobs.submit(store, chain(run, "pretrain"), start=False)
    with pytest.raises(ValueError, match=f"job {job}"):
        jobs.submit(store, chain(run, "pretrain"), start=False)


def test_only_one_of_many_processes_gets_the_job(store, run):
    jobs.submit(store, chain(run, "score"), start=False)
    jobs.submit(store, chain(run, "score"), start=False)
    code = (
        "import sys; from core.studio.jobs import execution; "
        "from core.studio.db import store; s = store.open(sys.argv[1]); sys.stdin.readline(); "
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


def test_queued_jobs_are_paused_resumed_and_cancelled(store, run):
    job = jobs.submit(store, chain(run, "pretrain"), start=False)
    assert jobs.pause(store, job) == "paused" == jobs.pause(store, job)
    assert runs.get_run(store, run)["status"] == "stopped"
    assert execution.claim(store) is None
    assert jobs.resume(store, job, start=False) == "queued"
    assert runs.get_run(store, run)["status"] == "queued"
    assert jobs.cancel(store, job) == "cancelled"
    with pytest.raises(ValueError, match="cannot be paused"):
        jobs.pause(store, job)
    jobs.resume(store, job, start=False)
    execution.claim(store)
    execution.advance(store, job)
    with pytest.raises(ValueError, match="nothing to resume"):
        jobs.resume(store, job, start=False)


SLOW = """
import sys, time
from core.studio.db import store
from core.studio.jobs import queue as jobs
from core.studio.jobs import steps, worker
from core.engine.progress import Stopped
def slow(work):
    for i in range(600):
        if work.should_stop():
            raise Stopped
        work.report({"step": i, "steps": 600, "loss": i})
        time.sleep(0.05)
steps.STEPS.names()
steps._STEPS["pretrain"] = slow
steps._STEPS["score"] = lambda work: None
import signal
signal.signal(signal.SIGTERM, lambda *_: worker._terminated.set())
worker.run_queue(store.open(sys.argv[1]))
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


def status(store, job):
    return jobs.get_job(store, job)["status"]


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


def test_a_worker_that_is_told_to_end_leaves_its_job_to_be_resumed(store, slow):
    job, start = slow
    process = start()
    process.terminate()
    assert process.wait(60) == 0
    assert status(store, job) == "interrupted"


def test_a_job_outlives_the_process_that_started_it(store, run):
    """A worker started by ensure_worker has a session of its own."""
    job = jobs.submit(store, [{"step": "score", "run": run}], start=False)
    code = (
        "import sys; from core.studio.db import store; from core.studio.jobs import queue; "
        "print(queue.ensure_worker(store.open(sys.argv[1])))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(store.home.path)], capture_output=True, text=True, timeout=60
    )
    [pid] = json.loads(told.stdout)
    assert os.getsid(pid) == pid
    wait(lambda: status(store, job) == "failed")  # an encoder cannot be scored: the sentence is the worker's
    assert "no finished fit" in jobs.get_job(store, job)["error"]


def test_process_ids_are_told_apart_by_their_start():
    here = start_of(os.getpid())
    assert here and is_alive(os.getpid(), here)
    assert not is_alive(os.getpid(), here + "0")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not is_alive(ended.pid, None) and not is_alive(None, None)


def _free(file):
    with open(file, "a") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def test_a_second_worker_leaves_when_one_works_and_one_waits(store, run, slow):
    job, start = slow
    start()
    jobs.submit(store, [{"step": "score", "run": run}], start=False)
    line = [sys.executable, "-m", "core.studio.jobs.worker", "--home", str(store.home.path)]
    waits = subprocess.Popen(line)
    wait(lambda: not _free(store.home.path / "worker.next"))
    third = subprocess.run(line, timeout=120)
    assert third.returncode == 0 and waits.poll() is None
    waits.kill()
    waits.wait()


def test_heartbeats_go_on_while_a_step_is_silent(store, run, steps, monkeypatch):
    monkeypatch.setattr(worker, "HEARTBEAT", 0.05)
    seen = []

    def silent(work):
        for _ in range(3):
            time.sleep(0.2)
            seen.append(Store(store.home).one("SELECT heartbeat FROM jobs")["heartbeat"])

    steps["score"] = silent
    jobs.submit(store, chain(run, "score"), start=False)
    worker.run_queue(store)
    assert len(set(seen)) == 3

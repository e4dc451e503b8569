"""Jobs without a neural network: chains of steps of our own, worked off in this process."""

import pytest

from core.studio.db import journal, opening
from core.studio.db.store import NotFound
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.runs import records as runs
from tests.conftest import wait
from tests.studio.jobs.conftest import chain


def done_at_once(work):
    work.report({"step": 3, "steps": 4, "loss": 1.5, "list": [1, 2], "text": "x", "message": "said"})


@pytest.fixture
def steps(monkeypatch):
    """Functions of steps: ours instead of the real ones."""
    table = {"pretrain": done_at_once, "fit": done_at_once, "score": done_at_once, "evaluate": done_at_once}
    monkeypatch.setattr("core.studio.jobs.steps.load_step", lambda name: table[name])
    return table


def test_a_chain_runs_to_its_end(store, run, steps):
    job = jobs.submit(store, chain(run, "pretrain", "score"), start=False)
    assert runs.get_run(store, run)["status"] == "queued"
    assert worker.run_queue(store) == 1
    row = jobs.get_job(store, job)
    assert (row["status"], row["position"], row["progress"], row["pid"]) == ("done", 1, 1.0, None)
    assert journal.metrics(store, run) == {"loss": [(3, 1.5)], "list_0": [(3, 1.0)], "list_1": [(3, 2.0)]}
    assert [line["line"] for line in journal.read_log(store, run)][0] == "said"


def test_a_job_says_in_plain_words_what_it_does(store, run, steps):
    job = jobs.submit(store, chain(run, "evaluate"), start=False)
    reporter = worker.Reporter(store, {**jobs.get_job(store, job), "run": run})
    assert reporter.message == "Evaluating …"
    reporter({"step": 1, "steps": 2})
    assert reporter.message == "Evaluating: 1 of 2"


def test_jobs_run_in_the_order_in_which_they_came(store, run, steps):
    order = []
    steps["score"] = lambda work: order.append(work.args["n"])
    for n in range(3):
        jobs.submit(store, [{"step": "score", "run": run, "args": {"n": n}}], start=False)
    worker.run_queue(store)
    assert order == [0, 1, 2]


def test_a_failed_step_ends_in_a_sentence(store, run, steps):
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


def test_queued_jobs_are_paused_resumed_and_cancelled(store, run):
    job = jobs.submit(store, chain(run, "pretrain"), start=False)
    assert jobs.pause(store, job) == "paused" == jobs.pause(store, job)
    assert runs.get_run(store, run)["status"] == "stopped"
    assert jobs.claim(store) is None
    assert jobs.resume(store, job, start=False) == "queued"
    assert runs.get_run(store, run)["status"] == "queued"
    assert jobs.cancel(store, job) == "cancelled"
    with pytest.raises(ValueError, match="cannot be paused"):
        jobs.pause(store, job)
    jobs.resume(store, job, start=False)
    jobs.claim(store)
    jobs.advance(store, job)
    with pytest.raises(ValueError, match="nothing to resume"):
        jobs.resume(store, job, start=False)


def test_heartbeats_go_on_while_a_step_is_silent(store, run, steps, monkeypatch):
    monkeypatch.setattr(worker, "HEARTBEAT", 0.05)
    seen = set()

    def silent(work):
        own = opening.open(store.home)
        wait(lambda: seen.add(own.one("SELECT heartbeat FROM jobs")["heartbeat"]) or len(seen) > 3)
        own.close()

    steps["score"] = silent
    jobs.submit(store, chain(run, "score"), start=False)
    worker.run_queue(store)
    assert len(seen) > 3

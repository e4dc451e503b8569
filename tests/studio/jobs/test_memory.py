"""Two jobs for which the memory is too small together go on one after the other."""

import threading

import pytest

from core.studio.db import opening
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.runs import records as runs
from tests.conftest import wait
from tests.studio.jobs.conftest import add, replace_step, status

pytestmark = pytest.mark.usefixtures("no_worker")
OUT_OF_MEMORY = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.slow
def test_a_short_job_without_room_waits_for_the_training(store, tiny_study, trains, monkeypatch):
    tried = []

    def scores(work):
        tried.append(trains.may_end.is_set())
        if not trains.may_end.is_set():
            raise OUT_OF_MEMORY

    replace_step(monkeypatch, "score", scores)
    other = runs.create_run(store, tiny_study, "pretrain", "pmsacl", {})
    job = add(store, "score", other)
    worker.run_queue(store, "short")
    row = jobs.get_job(store, job)
    assert (row["status"], row["queue"], row["error"]) == ("queued", "long", None)
    assert row["message"] == f"Waits for job {trains.job}: not enough memory for both"
    trains.may_end.set()
    trains.thread.join(60)
    assert status(store, job) == "done" and tried == [False, True]


@pytest.mark.slow
def test_a_training_without_room_waits_for_the_short_job_and_goes_on(store, tiny_study, run, monkeypatch):
    holds, began = threading.Event(), threading.Event()
    other = runs.create_run(store, tiny_study, "pretrain", "pmsacl", {})

    def pretrain(work):
        if not holds.is_set():
            raise OUT_OF_MEMORY

    def score(work):
        began.set()
        assert holds.wait(60)

    replace_step(monkeypatch, "pretrain", pretrain)
    replace_step(monkeypatch, "score", score)
    short, long = add(store, "score", other), add(store, "pretrain", run)
    threads = [threading.Thread(target=lambda n=n: worker.run_queue(opening.open(store.home), n)) for n in jobs.QUEUES]
    threads[0].start()
    assert began.wait(60)
    threads[1].start()
    wait(lambda: "Waits for job" in jobs.get_job(store, long)["message"])
    assert status(store, long) == "running" and runs.get_run(store, run)["status"] == "queued"
    holds.set()
    for thread in threads:
        thread.join(60)
    assert (status(store, short), status(store, long)) == ("done", "done")


@pytest.mark.slow
def test_out_of_memory_with_nothing_beside_is_said(store, run, monkeypatch):
    def full(work):
        raise OUT_OF_MEMORY

    for step in ("pretrain", "score"):
        replace_step(monkeypatch, step, full)
        job = add(store, step, run)
        worker.run_queue(store)
        row = jobs.get_job(store, job)
        assert row["status"] == "failed" and "smaller batch" in row["error"]

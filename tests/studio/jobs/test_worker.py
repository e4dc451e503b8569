"""A worker process that really runs, is paused, asked to end, and killed."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from core.engine import files
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.training import checkpoint
from core.studio.db.leftovers import is_held
from core.studio.db.store import is_full
from core.studio.ingest import studies
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.runs import pipeline
from core.studio.runs import records as runs
from tests.conftest import ARCH, plain_folder, wait
from tests.studio.jobs.conftest import chain, replace_step, status


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
    assert "not a finished fit" in jobs.get_job(store, job)["error"]


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
        "import sys; from core.studio.jobs import queue; "
        "from core.studio.db import opening; s = opening.open(sys.argv[1]); sys.stdin.readline(); "
        "print(queue.claim(s) is not None, flush=True); sys.stdin.readline()"
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
    assert jobs.claim(store) is not None


def test_errors_that_say_that_the_disk_is_full(tmp_path):
    inner = OSError(errno.ENOSPC, "No space left on device", "/a/b")
    outer = ValueError("the checkpoint cannot be written")
    outer.__cause__ = inner
    for error in (
        inner,
        outer,
        sqlite3.OperationalError("database or disk is full"),
        OSError("123 requested and 0 written"),
    ):
        assert is_full(error)
        assert worker.explain(error).startswith("The disk is full: free some space")
    assert not is_full(OSError(errno.ENOENT, "No such file")) and not is_full(ValueError("full of hope"))


@pytest.fixture
def training(store, tmp_path):
    plain_folder(tmp_path / "images", 8, 2, 2)
    studies.import_study(store, "tiny", tmp_path / "images")
    small = {"size": 32, "batch": 2, "epochs": 2, "snapshot_every": 1, "encoder.arch": ARCH}
    config = PRETRAIN_PRESETS["quick"].replace(**small)
    return [pipeline.create_pretrain(store, "tiny", config) for _ in range(2)]


def weights(store, run) -> dict:
    return load_file(runs.run_folder(store, run) / "encoder.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 2])
def test_a_training_goes_on_once_there_is_room(store, training, monkeypatch, room):
    whole, cut = training
    monkeypatch.setattr(checkpoint.Checkpoints.__init__, "__defaults__", (0.0,))  # a checkpoint at each step
    jobs.submit(store, pipeline.chain(whole), start=False)
    worker.run_queue(store)
    left, real = [room], files.os.fsync

    def fsync(descriptor):
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 1
        real(descriptor)

    job = jobs.submit(store, pipeline.chain(cut), start=False)
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", fsync)
        worker.run_queue(store)
    row = jobs.get_job(store, job)
    assert row["status"] == "failed" and row["error"].startswith("The disk is full: free some space, then Resume")
    folder = runs.run_folder(store, cut)
    assert not [f.name for f in folder.rglob("*") if f.name.startswith(".")]
    jobs.resume(store, job, start=False)
    worker.run_queue(store)
    assert jobs.get_job(store, job)["status"] == "done"
    first, second = weights(store, whole), weights(store, cut)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_sentence_is_written_when_there_is_room_for_a_line(store, training, monkeypatch):
    job = jobs.submit(store, pipeline.chain(training[0]), start=False)
    refusals, real = [2], jobs.end

    def end(*args):
        if refusals[0]:
            refusals[0] -= 1
            raise sqlite3.OperationalError("database or disk is full")
        real(*args)

    def full(work):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(jobs, "end", end)
    replace_step(monkeypatch, "pretrain", full)
    monkeypatch.setattr(worker._terminated, "wait", lambda seconds: False)
    worker.run_queue(store)
    assert jobs.get_job(store, job)["error"].startswith("The disk is full")

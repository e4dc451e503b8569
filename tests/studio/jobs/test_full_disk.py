"""A disk that fills up in a training: a sentence, nothing half-made, and the same weights once there is room."""

from __future__ import annotations

import errno
import sqlite3

import pytest
import torch
from safetensors.torch import load_file

from core.engine import files
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.training import checkpoint
from core.studio.db.store import is_full
from core.studio.ingest import studies
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.runs import pipeline
from core.studio.runs import records as runs
from tests.conftest import ARCH, plain_folder


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
    refusals, real = [2], worker.execution.end

    def end(*args):
        if refusals[0]:
            refusals[0] -= 1
            raise sqlite3.OperationalError("database or disk is full")
        real(*args)

    def full(work):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(worker.execution, "end", end)
    monkeypatch.setitem(worker.STEPS, "pretrain", full)
    monkeypatch.setattr(worker._terminated, "wait", lambda seconds: False)
    worker.run_queue(store)
    assert jobs.get_job(store, job)["error"].startswith("The disk is full")

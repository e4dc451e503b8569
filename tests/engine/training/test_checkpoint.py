"""Checkpoints: whole or absent, history cut to them, optimisers put back as they were."""

from __future__ import annotations

import os

import pytest
import torch

from core.engine import files
from core.engine.training import checkpoint


def test_history_is_cut_to_the_checkpoint(tmp_path):
    checkpoint.save(tmp_path, {"step": 1}, {"a": torch.zeros(2)}, [{"step": 1}])
    with open(tmp_path / checkpoint.HISTORY, "a") as out:
        out.write('{"step": 2}\n{"ste')  # a process killed before its next checkpoint
    assert checkpoint.history(tmp_path) == [{"step": 1}]
    checkpoint.save(tmp_path, {"step": 2}, {"a": torch.ones(2)}, [{"step": 2, "again": True}])
    assert checkpoint.history(tmp_path) == [{"step": 1}, {"step": 2, "again": True}]
    about, tensors = checkpoint.load(tmp_path)
    assert about["step"] == 2 and torch.equal(tensors["a"], torch.ones(2))
    assert len(list(tmp_path.glob("*.safetensors"))) == 1


@pytest.mark.parametrize("at", ["checkpoint-00000002.safetensors", "checkpoint.json"])
def test_a_write_that_fails_leaves_the_old_checkpoint(tmp_path, monkeypatch, at):
    checkpoint.save(tmp_path, {"step": 1}, {"a": torch.zeros(2)}, [{"step": 1}])
    replace = os.replace

    def fail(old, new):
        if os.path.basename(new) == at:
            raise OSError("disk full")
        replace(old, new)

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(tmp_path, {"step": 2}, {"a": torch.ones(2)}, [{"step": 2}])
    monkeypatch.undo()
    about, tensors = checkpoint.load(tmp_path)
    assert about["step"] == 1 and torch.equal(tensors["a"], torch.zeros(2))
    assert checkpoint.history(tmp_path) == [{"step": 1}]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_damage_is_named_in_words(tmp_path):
    assert checkpoint.load(tmp_path) is None
    checkpoint.save(tmp_path, {"step": 1}, {"a": torch.zeros(2)}, [])
    (tmp_path / "checkpoint-00000001.safetensors").write_bytes(b"x")
    with pytest.raises(checkpoint.BadCheckpoint, match="start again in a new folder"):
        checkpoint.load(tmp_path)
    (tmp_path / checkpoint.NAME).write_text("{")
    with pytest.raises(checkpoint.BadCheckpoint, match="cannot be read"):
        checkpoint.load(tmp_path)

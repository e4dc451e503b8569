"""Checkpoints: whole or absent, history cut to them, optimisers put back as they were."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from core.engine import files
from core.engine.training import checkpoint


def test_each_tuple_of_numbers_has_draws_of_its_own():
    def first(*numbers):
        return float(torch.rand(1, generator=checkpoint.generator(*numbers)))

    assert first(1, 2, 3) == first(1, 2, 3)
    assert len({first(s, p, i) for s in range(3) for p in range(3) for i in range(20)}) == 180


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


def test_damage_is_told_in_words(tmp_path):
    assert checkpoint.load(tmp_path) is None
    checkpoint.save(tmp_path, {"step": 1}, {"a": torch.zeros(2)}, [])
    (tmp_path / "checkpoint-00000001.safetensors").write_bytes(b"x")
    with pytest.raises(checkpoint.BadCheckpoint, match="start again in a new folder"):
        checkpoint.load(tmp_path)
    (tmp_path / checkpoint.NAME).write_text("{")
    with pytest.raises(checkpoint.BadCheckpoint, match="cannot be read"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_optimiser_goes_on_bit_for_bit(kind):
    def build():
        torch.manual_seed(0)
        net = torch.nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        extra = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        return net, kind(net.parameters(), lr=0.01, **extra)

    def step(net, optimiser, seed):
        x = torch.rand(2, 3, 9, 9, generator=torch.Generator().manual_seed(seed))
        optimiser.zero_grad()
        net(x).square().mean().backward()
        optimiser.step()

    (one, first), (two, second) = build(), build()
    for seed in range(3):
        step(one, first, seed)
    two.load_state_dict(one.state_dict())
    checkpoint.restore_optimiser(second, checkpoint.optimiser_state(first))
    for seed in range(3, 6):
        step(one, first, seed), step(two, second, seed)
    assert torch.equal(one.weight, two.weight)
    kept = next(iter(v for v in second.state_dict()["state"][0].values() if v is not None and v.ndim == 4))
    assert kept.is_contiguous(memory_format=torch.channels_last)


def test_fingerprint_tells_images_apart():
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    other = images.copy()
    other[0, 0, 0, 0] ^= 1
    assert checkpoint.fingerprint(images) == checkpoint.fingerprint(images.copy())
    assert len({checkpoint.fingerprint(i) for i in (images, other, images[:-1])}) == 3

"""Checkpoints: whole or absent, history cut to them, optimisers put back as they were."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from core.engine import files
from core.engine.backbones.encoder import build_encoder, save_encoder
from core.engine.progress import Stopped
from core.engine.training import checkpoint
from core.engine.training.pretrain import pretrain
from core.engine.training.pretraining import Data
from tests.engine._images import normals
from tests.engine._train import CONFIG, STEPS
from tests.engine.training.tiny import IMAGES, TINY, same, weights_of


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


VARIANTS = {
    "sgd": {},
    "adamw": {"optimiser": "adamw", "lr": 1e-3, "schedule": "onecycle"},
    "re-estimated": {"centres": "re-estimated", "reestimate_every": 1, "lr": 1e-3},
    "contiguous": {"channels_last": False, "autocast": False, "schedule": "cosine"},
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_stopping_anywhere_changes_nothing(tmp_path, variant):
    config = TINY.replace(**VARIANTS[variant])
    whole = pretrain(IMAGES, config, tmp_path / "whole", held_out=normals(4, seed=9))
    parts = tmp_path / "parts"
    for steps in (1, 3, 4, 6):  # within an epoch, at its end, right after it, at the end
        result = pretrain(IMAGES, config, parts, held_out=normals(4, seed=9), max_steps=steps)
        assert len(result.history) == steps
    assert same(weights_of(tmp_path / "whole"), weights_of(parts))
    assert torch.equal(whole.centres, result.centres)
    timed = ("images_per_second", "memory")
    cut = [[{k: v for k, v in line.items() if k not in timed} for line in r.history] for r in (whole, result)]
    assert cut[0] == cut[1] and [line["step"] for line in cut[0]] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_a_request_to_stop_is_met_at_the_next_step_with_a_checkpoint(tmp_path):
    seen = []
    with pytest.raises(Stopped):
        pretrain(IMAGES, TINY, tmp_path / "a", report=seen.append, should_stop=lambda: len(seen) == 2)
    assert [line["step"] for line in seen] == [1, 2]
    pretrain(IMAGES, TINY, tmp_path / "a", report=seen.append)
    assert [line["step"] for line in seen] == [1, 2, 3, 4, 5, 6]
    pretrain(IMAGES, TINY, tmp_path / "b")
    assert same(weights_of(tmp_path / "a"), weights_of(tmp_path / "b"))


@pytest.mark.long
def test_kill_in_mid_training_then_resume(tmp_path):
    """Begun in a process that is killed, and gone on with in this one."""
    killed = subprocess.Popen([sys.executable, "-m", "tests.engine._train", str(tmp_path / "a"), "0.3"])
    deadline = time.monotonic() + 240
    while len(checkpoint.history(tmp_path / "a")) < 3:
        assert killed.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert 3 <= len(checkpoint.history(tmp_path / "a")) < STEPS and not (tmp_path / "a" / "encoder.json").exists()
    for name in ("a", "b"):  # goes on; was never disturbed
        pretrain(normals(12), CONFIG, tmp_path / name)
    assert [line["step"] for line in checkpoint.history(tmp_path / "a")] == list(range(1, STEPS + 1))
    assert same(weights_of(tmp_path / "a"), weights_of(tmp_path / "b"))


def test_a_training_that_began_from_other_weights_is_not_gone_on_with(tmp_path):
    for seed in (0, 1):
        config = TINY.encoder.replace(seed=seed)
        save_encoder(build_encoder(config), tmp_path / "start")
        begun = TINY.replace(**{"encoder.init": str(tmp_path / "start" / "encoder.safetensors")})
        if seed == 0:
            pretrain(IMAGES, begun, tmp_path / "run", max_steps=1)
    with pytest.raises(checkpoint.BadCheckpoint, match="began from other weights"):
        pretrain(IMAGES, begun, tmp_path / "run")


REGION = np.ones((10, 32, 32), np.uint8)
OF_MARKS = (normals(3, seed=4), np.pad(REGION[:3, :9, :9], ((0, 0), (8, 15), (8, 15))))
DONORS = TINY.replace(**{"medmix.donor": "other+marked+foreign"})
BEGUN = Data(IMAGES, pool=normals(4, seed=6), marked=OF_MARKS)
HELD = Data(normals(4, seed=9))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("says", "train", "held_out"),
    [
        ("other images or regions", replace(BEGUN, roi=REGION), HELD),
        ("other images or regions", replace(BEGUN, images=normals(10, seed=5)), HELD),
        ("other images of another study", replace(BEGUN, pool=normals(4, seed=7)), HELD),
        ("other images of another study", replace(BEGUN, pool=None), HELD),
        ("other lesions that readers annotated", replace(BEGUN, marked=(OF_MARKS[0], OF_MARKS[1][:, ::-1])), HELD),
        ("other lesions that readers annotated", replace(BEGUN, marked=None), HELD),
        ("other held-out", BEGUN, Data(normals(4, seed=8))),
        ("other held-out", BEGUN, Data(HELD.images, REGION[:4])),
        ("other held-out", BEGUN, None),
    ],
)  # fmt: skip
def test_nothing_that_a_training_depends_on_may_change(begun, says, train, held_out):
    """Changed, added or taken away: any of it would make weights that no configuration describes."""
    with pytest.raises(checkpoint.BadCheckpoint, match=says):
        pretrain(train, DONORS, begun, held_out)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    folder = tmp_path_factory.mktemp("begun")
    pretrain(BEGUN, DONORS, folder, HELD, max_steps=1)
    return folder

"""What a pre-training writes: history, checkpoints, snapshots, the encoder that is kept."""

from __future__ import annotations

import math
import resource
import shutil
import time
from pathlib import Path

import torch

from core.engine.backbones.encoder import save_encoder
from core.engine.training import checkpoint
from core.engine.training.trainer import Trainer
from core.engine.training.validation import better

BEST = "best"


class Recorder:
    """The files of one run's folder, written by one process. `about`: what a resumed training must agree with."""

    def __init__(self, trainer: Trainer, folder: Path, about: dict, seconds: float) -> None:
        self.trainer, self.folder, self.about, self.seconds = trainer, folder, about, seconds
        self.lines: list[dict] = []
        self.saved = time.monotonic()

    def add(self, numbers: dict) -> dict:
        """One step's line of the history, which it returns. Numbers that are none become None."""
        t = self.trainer
        where = {"step": t.step, "steps": t.steps, "epoch": math.ceil(t.step / t.per_epoch), "epochs": t.config.epochs}
        line = {**where, **numbers, "memory": _memory(t.device)}
        self.lines.append(_plain(line))
        return self.lines[-1]

    def epoch_done(self, numbers: dict) -> None:
        """Keep the epoch's encoder if it is the best so far, and a snapshot where one is due."""
        t = self.trainer
        found = {name: value for name, value in numbers.items() if name.startswith("val_")}
        if better(found, t.best):
            t.best = {**found, "epoch": t.epoch}
            if t.config.select == "best":
                self._encoder(self.folder / BEST, found)
        if t.epoch % t.config.snapshot_every == 0 or t.step == t.steps:
            self.snapshot()

    def snapshot(self) -> None:
        """The encoder as it is, in half precision (it is only looked at), at epochs/0000 for the untrained one."""
        t = self.trainer
        self._encoder(self.folder / "epochs" / f"{t.epoch:04d}", {"step": t.step}, half=True)

    def keep_encoder(self) -> None:
        """Put the encoder of this training where `load_encoder(folder)` finds it: the last, or the best so far."""
        t = self.trainer
        if t.config.select == "best" and t.best is not None:
            for path in sorted((self.folder / BEST).iterdir(), key=lambda p: p.suffix, reverse=True):
                shutil.copyfile(path, self.folder / path.name)
        else:
            self._encoder(self.folder, {"step": t.step})

    def save_if_due(self) -> None:
        """A checkpoint, if the last is `seconds` old."""
        if time.monotonic() - self.saved >= self.seconds:
            self.save()

    def save(self, finished: bool = False) -> None:
        """A checkpoint now."""
        about, tensors = self.trainer.state()
        checkpoint.save(self.folder, {**self.about, **about, "finished": finished}, tensors, self.lines)
        self.lines.clear()
        self.saved = time.monotonic()

    def _encoder(self, folder: Path, extra: dict, half: bool = False) -> None:
        t = self.trainer
        about = {"objective": t.config.objective, "epoch": t.epoch, **extra}
        save_encoder(t.encoder, folder, about, t.centres, half=half)


def _plain(value):
    """JSON has no NaN and no infinity: None stands for both."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _memory(device: torch.device) -> int:
    """Most bytes held so far: on the GPU where that is the device, else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

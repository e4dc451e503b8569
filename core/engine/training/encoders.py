"""The encoders that a pre-training writes: one per epoch to look at, the best so far, and the one that is kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from core.engine.backbones.encoder import save_encoder
from core.engine.training.pretraining import Pretraining
from core.engine.training.validation import better

BEST = "best"


class Encoders:
    """The encoders in one run's folder, written by one process."""

    def __init__(self, training: Pretraining, folder: Path) -> None:
        self.training, self.folder = training, folder

    def epoch_done(self, numbers: dict[str, float]) -> None:
        """Keep the epoch's encoder if it is the best so far, and a snapshot where one is due. numbers: validation's."""
        t = self.training
        if better(numbers, t.best):
            t.best = {**numbers, "epoch": t.epoch}
            if t.config.select == "best":
                self._write(self.folder / BEST, numbers)
        if t.epoch % t.config.snapshot_every == 0 or t.step == t.steps:
            self.snapshot()

    def snapshot(self) -> None:
        """The encoder as it is, in half precision (it is only looked at), at epochs/0000 for the untrained one."""
        t = self.training
        self._write(self.folder / "epochs" / f"{t.epoch:04d}", {"step": t.step}, half=True)

    def keep(self) -> None:
        """Put the encoder of this training where `load_encoder(folder)` finds it: the last, or the best so far."""
        t = self.training
        if t.config.select == "best" and t.best is not None:
            for path in sorted((self.folder / BEST).iterdir(), key=lambda p: p.suffix, reverse=True):
                shutil.copyfile(path, self.folder / path.name)
        else:
            self._write(self.folder, {"step": t.step})

    def _write(self, folder: Path, extra: dict[str, Any], half: bool = False) -> None:
        t = self.training
        about = {"objective": t.config.objective, "epoch": t.epoch, **extra}
        save_encoder(t.encoder, folder, about, t.centres, half=half)

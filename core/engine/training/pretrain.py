"""Trains an encoder on normal images (Sec. PMSACL pre-training). Training can be stopped and resumed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.engine import processes
from core.engine.backbones.encoder import Encoder, load_centres, load_encoder, save_encoder
from core.engine.files import copy
from core.engine.objectives.config import PretrainConfig
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.progress import Report, Stop
from core.engine.tensors import pick_device
from core.engine.training import checkpoint, loop
from core.engine.training.base import VALIDATION, fingerprint, generator
from core.engine.training.pretraining import Data, Pretraining

__all__ = ["PRETRAIN_PRESETS", "PretrainConfig", "PretrainResult", "pretrain"]


@dataclass
class PretrainResult:
    """Result of a pre-training run.

    Attributes:
        encoder: Trained encoder, in evaluation mode.
        centres: Class centres, float32 `(k + 1, D)`, or None if the objective uses no centres.
        folder: Folder that contains all results.
        collapsed: Whether an alarm of `CollapseWatch` was still active at the end.
        message: Summary for users.
    """

    encoder: Encoder
    centres: Tensor | None
    folder: Path
    collapsed: bool
    message: str

    @property
    def history(self) -> list[dict[str, Any]]:
        """Metrics of all steps, one dictionary per step. They are read from the folder at each access."""
        return checkpoint.history(self.folder)


def pretrain(
    train: Data | np.ndarray,
    config: PretrainConfig,
    folder: Path | str,
    held_out: Data | np.ndarray | None = None,
    *,
    device: torch.device | str = "cpu",
    report: Report | None = None,
    should_stop: Stop | None = None,
    max_steps: int | None = None,
    checkpoint_seconds: float = 30.0,
) -> PretrainResult:
    """Trains an encoder on normal images and writes it to `folder`.

    If `folder` contains a checkpoint of the run, the run is resumed; on a CPU, the final weights equal those of an
    uninterrupted run bit for bit. Snapshots of the encoder are saved in folder/epochs/0000, 0001, and so on.

    Under torchrun, all processes must call this function with the same arguments. The batch of each step is divided
    evenly between them. Only the first process writes files, calls `report` and calls `should_stop`.

    Args:
        train: Normal images, uint8 `(N, S, S, 3)`, or `Data` with regions of interest and other images.
        held_out: Normal images that are not used for training. After each epoch, the encoder is validated on these
            images and on copies with pasted lesions.
        report: Function that is called after each step with the step's metrics.
        should_stop: Function that returns True if the run must stop.
        max_steps: Number of steps, counted from the start of the run, after which to save a checkpoint and return.
        checkpoint_seconds: Time between two checkpoints in seconds.

    Raises:
        Stopped: If `should_stop` returns True, after a checkpoint is written.
        Diverged: If the loss or the weights are not finite, or if an alarm starts and `stop_on_alarm` is set. The
            folder then has no final encoder.
        ValueError: If images, folder and config do not match.
    """
    folder, device = Path(folder), torch.device(device) if not isinstance(device, str) else pick_device(device)
    train = Data.of(train)
    held_out = None if held_out is None else Data.of(held_out)
    held_out = held_out if held_out is not None and len(held_out.images) else None
    _check(train.images, train.roi, config, "images")
    if held_out is not None:
        _check(held_out.images, held_out.roi, config, "held-out images")
    if train.pool is not None:
        _check(train.pool, train.pool_roi, config, "donors' images")
    if train.marked is not None:
        _check(*train.marked, config, "marked images")
    device, should_stop = processes.place(device), processes.agreed(should_stop)
    first = processes.is_first()
    training = Pretraining(config, train, device)
    if config.frozen and training.encoder.origin["source"] == "random":
        raise ValueError(
            f"the layers up to stride {config.frozen} would stay random: start {config.encoder.arch} from pretrained "
            "weights (init), or train all layers (frozen = 0, as in the preset quick)"
        )
    identity = {
        "config": config.to_dict(),
        "data": fingerprint(train.images, train.roi),
        "pool": None if train.pool is None else fingerprint(train.pool, train.pool_roi),
        "marked": None if train.marked is None else fingerprint(*train.marked),
        "held_out": None if held_out is None else fingerprint(held_out.images, held_out.roi),
        "encoder": fingerprint(training.encoder.state_dict()),
    }
    checkpoints = checkpoint.Checkpoints(folder, identity, checkpoint_seconds)
    processes.from_first()  # waits, so that all processes find the files of the first one
    saved = checkpoint.load(folder)
    if saved is not None:
        _same(saved[0], checkpoints.about, folder)
        checkpoint.restore(training, *saved)
        if saved[0].get("finished"):
            return _result(training, folder)
    encoders = Encoders(training, folder)
    if training.step == 0:
        note = _substitution(training.encoder)
        if note and report is not None and first:
            report({"step": 0, "steps": training.steps, "message": note.strip()})
        training.report, training.should_stop = report if first else None, should_stop
        training.prepare()
        if first:
            encoders.snapshot()

    def epoch_done() -> dict[str, float]:
        if training.step % training.per_epoch and training.step != training.steps:
            return {}
        training.check()
        if not first:
            return {}
        numbers = {} if held_out is None else validate(training, held_out)
        encoders.epoch_done(numbers)
        return numbers

    if first:
        loop.run(training, checkpoints, report, should_stop, last=max_steps, after=epoch_done)
        encoders.keep()
        checkpoints.save(training, finished=training.step == training.steps)
    else:
        loop.run(training, None, None, should_stop, last=max_steps, after=epoch_done)
    processes.from_first()
    return _result(training, folder)


# Fingerprints, besides the configuration, that a resumed run must share, and the phrase for a difference.
IDENTITY = {
    "data": "on other images or regions of interest",
    "pool": "with lesions from other images of another study",
    "marked": "with other lesions that readers annotated",
    "held_out": "with other held-out images or regions of interest",
    "encoder": "that began from other weights",
}


def _check(images: np.ndarray, roi: np.ndarray | None, config: PretrainConfig, what: str) -> None:
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise ValueError(f"{what} must be uint8 (N, S, S, 3), not {images.dtype} {images.shape}")
    if not len(images):
        raise ValueError(f"there are no {what}; training needs at least 2")
    if images.shape[1:3] != (config.size, config.size):
        raise ValueError(
            f"{what} are {images.shape[2]} x {images.shape[1]} pixels, but the configuration's size is {config.size}"
        )
    if what == "images" and len(images) < 2:
        raise ValueError("MedMix cuts lesions from one image and pastes them into another: give at least 2 images")
    if roi is not None and roi.shape != images.shape[:3]:
        raise ValueError(f"the regions of interest are {roi.shape}, but must be {images.shape[:3]} like the {what}")


def _same(old: dict[str, Any], new: dict[str, Any], folder: Path) -> None:
    """Raises BadCheckpoint unless the run `new` has the settings and images of the checkpoint `old`."""
    changed = sorted(k for k in new["config"] if old["config"].get(k) != new["config"][k])
    if changed:
        raise checkpoint.BadCheckpoint(
            f"{folder} holds a run with another {', '.join(changed)}; use its settings or choose a new folder"
        )
    for key, difference in IDENTITY.items():
        if old.get(key) != new.get(key):
            raise checkpoint.BadCheckpoint(f"{folder} holds a run {difference}; choose a new folder")


def _result(training: Pretraining, folder: Path) -> PretrainResult:
    watch = training.watch
    message = watch.alarm or f"Trained {training.step} of {training.steps} steps without collapse.{watch.accuracy()}"
    if watch.past and not watch.alarm:
        message = f"Trained {training.step} of {training.steps} steps. An alarm was raised and has ended: {watch.past}"
    encoder = load_encoder(folder, training.device)
    message += _substitution(encoder)
    return PretrainResult(encoder, load_centres(folder), folder, watch.alarm is not None, message)


def _substitution(encoder: Encoder) -> str:
    """Returns a sentence with a leading space if the requested backbone was replaced by another one, otherwise ''."""
    name = encoder.origin.get("instead_of")
    return f" {encoder.config.arch} replaces {name}, whose ImageNet weights are not installed." if name else ""


BEST = "best"


class Encoders:
    """Writes a run's encoders (snapshots, best and final) to its folder. Only the first process uses this class."""

    def __init__(self, training: Pretraining, folder: Path) -> None:
        self.training, self.folder = training, folder

    def epoch_done(self, numbers: dict[str, float]) -> None:
        """Updates the best epoch from validation metrics `numbers`; saves the best encoder and a snapshot if due."""
        t = self.training
        if better(numbers, t.best):
            t.best = {**numbers, "epoch": t.epoch}
            if t.config.select == "best":
                self._write(self.folder / BEST, numbers)
        if t.epoch % t.config.snapshot_every == 0 or t.step == t.steps:
            self.snapshot()

    def snapshot(self) -> None:
        """Saves the encoder in float16 as epochs/NNNN, for display only. 0000 is the untrained encoder."""
        t = self.training
        self._write(self.folder / "epochs" / f"{t.epoch:04d}", {"step": t.step}, half=True)

    def keep(self) -> None:
        """Saves the final encoder for `load_encoder`: the best one if `select` is "best", otherwise the last one."""
        t = self.training
        if t.config.select == "best" and t.best is not None:
            for path in sorted((self.folder / BEST).iterdir(), key=lambda p: p.suffix, reverse=True):
                copy(path, self.folder / path.name)
        else:
            self._write(self.folder, {"step": t.step})

    def _write(self, folder: Path, extra: dict[str, Any], half: bool = False) -> None:
        t = self.training
        notes = {"objective": t.config.objective, "epoch": t.epoch, **extra}
        save_encoder(t.encoder, folder, notes, t.centres, half=half, class_head=t.objective.class_head())


MOST = 64  # largest number of held-out images used, evenly spaced


@torch.no_grad()
def validate(training: Pretraining, held_out: Data) -> dict[str, float]:
    """Computes validation metrics on held-out normal images and on their copies with pasted lesions.

    Returns:
        The losses val_loss and val_l_*. If the objective has a class head, also val_accuracy (0 to 1), val_images
        (number of held-out images) and val_auroc (AUROC of the score 1 - p(A_0) for classes above A_0 against A_0).
    """
    c, objective, device = training.config, training.objective, training.device
    chosen = np.unique(np.linspace(0, len(held_out.images) - 1, min(MOST, len(held_out.images))).astype(int))
    sums: dict[str, float] = {}
    logits, labels = [], []
    training.model.eval()
    try:
        for start in range(0, len(chosen), c.sources):
            rows = chosen[start : start + c.sources]
            images, inside = held_out.batch(rows, device)
            views = objective.views(images, generator(c.seed, VALIDATION, start), inside)
            outcome = objective.loss(*training.features(views.images), views, training.centres)
            for name, value in {"loss": outcome.loss, **outcome.terms}.items():
                sums[name] = sums.get(name, 0.0) + float(value) * len(rows) / len(chosen)
            if outcome.logits is not None:
                logits.append(outcome.logits.float().cpu())
                labels.append(views.classed[1].cpu())
    finally:
        training.model.train()
    figures = {f"val_{name}": value for name, value in sums.items()}
    if logits:
        predicted, truth = torch.cat(logits), torch.cat(labels)
        figures["val_images"] = float(len(chosen))
        figures["val_accuracy"] = float((predicted.argmax(1) == truth).float().mean())
        score = 1 - predicted.softmax(1)[:, 0]
        if bool(torch.isfinite(score).all()):
            from sklearn.metrics import roc_auc_score  # imported here because scikit-learn takes seconds to load

            figures["val_auroc"] = float(roc_auc_score((truth > 0).numpy(), score.numpy()))
    return figures


def better(figures: dict[str, float], best: dict[str, float] | None) -> bool:
    """Returns whether an epoch is better than the best so far: by val_l_aug if it exists, otherwise by val_loss."""
    if not figures:
        return False
    key = "val_l_aug" if "val_l_aug" in figures else "val_loss"
    return bool(np.isfinite(figures[key])) and (best is None or figures[key] < best[key])

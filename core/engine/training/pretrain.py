"""Pre-training (Sec. PMSACL pre-training): from normal images to an encoder, stopped and resumed at will."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from core.engine.backbones.encoder import Encoder, load_centres, load_encoder
from core.engine.objectives.config import PRETRAIN_PRESETS, PretrainConfig
from core.engine.progress import Report, Stop, Stopped
from core.engine.tensors import pick_device
from core.engine.training import checkpoint
from core.engine.training.recorder import Recorder
from core.engine.training.trainer import Data, Trainer
from core.engine.training.validation import validate

__all__ = ["PRETRAIN_PRESETS", "PretrainConfig", "PretrainResult", "pretrain"]


@dataclass
class PretrainResult:
    """encoder in eval mode, centres float32 (k+1, D) or None, history one dict per step (what `report` was given).

    collapsed: whether the features lay in one point when training ended; message says so, or how it went.
    """

    encoder: Encoder
    centres: Tensor | None
    folder: Path
    history: list[dict]
    collapsed: bool
    message: str


def pretrain(
    images: np.ndarray,
    config: PretrainConfig,
    folder: Path | str,
    *,
    holdout: np.ndarray | None = None,
    roi: np.ndarray | None = None,
    holdout_roi: np.ndarray | None = None,
    pool: np.ndarray | None = None,
    pool_roi: np.ndarray | None = None,
    device: torch.device | str = "cpu",
    report: Report | None = None,
    should_stop: Stop | None = None,
    max_steps: int | None = None,
    checkpoint_seconds: float = 30.0,
) -> PretrainResult:
    """Train an encoder on images uint8 (N, S, S, 3), all normal. roi uint8 (N, S, S), 1 inside.

    holdout: normal images that are not trained on; each epoch is validated on them and MedMix of them.
    pool: normal images of another study, of the same size, that the donor `foreign` cuts from, with pool_roi.
    Goes on from the checkpoint in `folder` if there is one: on a CPU the weights are then bit for bit those of a
    training that never stopped. `max_steps`: return after so many steps in all, as if stopped. A checkpoint is written
    at least every `checkpoint_seconds`. Snapshots of the encoder lie in folder/epochs/0000, 0001, ...

    Raises Stopped, once a checkpoint is written, when `should_stop` turns true; ValueError on images or a folder that
    do not fit the configuration, saying what does.
    """
    folder, device = Path(folder), torch.device(device) if not isinstance(device, str) else pick_device(device)
    _check(images, roi, config, "images")
    if holdout is not None and len(holdout):
        _check(holdout, holdout_roi, config, "held-out images")
    else:
        holdout = None
    if pool is not None:
        _check(pool, pool_roi, config, "donors' images")
    trainer = Trainer(config, Data(images, roi, pool, pool_roi), device)
    about = {"config": json.loads(config.to_json()), "data": checkpoint.fingerprint(images)}
    if pool is not None:
        about["pool"] = checkpoint.fingerprint(pool)
    found = checkpoint.load(folder)
    if found is not None:
        _same(found[0], about, folder)
        trainer.restore(*found)
        if found[0]["finished"]:
            return _result(trainer, folder)
    run = Recorder(trainer, folder, about, checkpoint_seconds)
    last = trainer.steps if max_steps is None else min(trainer.steps, max_steps)
    if trainer.step == 0:
        trainer.prepare()
        run.snapshot()
    while trainer.step < last and not trainer.broken:
        if should_stop is not None and should_stop():
            run.save()
            raise Stopped(f"stopped after {trainer.step} of {trainer.steps} steps")
        started = time.perf_counter()
        trainer.prepare()
        numbers = trainer.advance()
        numbers["images_per_second"] = numbers.pop("seen") / (time.perf_counter() - started)
        if trainer.step % trainer.per_epoch == 0 and not trainer.broken:
            if holdout is not None:
                numbers |= validate(trainer, holdout, holdout_roi)
            run.epoch_done(numbers)
        line = run.add(numbers)
        if report is not None:
            report(line)
        run.save_if_due()
    run.keep_encoder()
    run.save(finished=trainer.broken or trainer.step == trainer.steps)
    return _result(trainer, folder)


def _check(images: np.ndarray, roi: np.ndarray | None, config: PretrainConfig, what: str) -> None:
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise ValueError(f"{what} must be uint8 (N, S, S, 3), not {images.dtype} {images.shape}")
    if not len(images):
        raise ValueError(f"there are no {what}; a training needs at least 2")
    if images.shape[1:3] != (config.size, config.size):
        raise ValueError(
            f"{what} are {images.shape[2]} x {images.shape[1]} pixels, the configuration's size is {config.size}"
        )
    if what == "images" and len(images) < 2:
        raise ValueError("MedMix cuts lesions from one image and puts them into another: give at least 2 images")
    if roi is not None and roi.shape != images.shape[:3]:
        raise ValueError(f"the regions of interest are {roi.shape}, the {what} {images.shape[:3]}; they must agree")


def _same(old: dict, new: dict, folder: Path) -> None:
    """Going on with other settings or images would give weights that no configuration describes."""
    before = json.loads(PretrainConfig.from_dict(old["config"]).to_json())  # one that is older than a setting lacks it
    changed = sorted(k for k in new["config"] if before[k] != new["config"][k])
    if changed:
        raise checkpoint.BadCheckpoint(
            f"{folder} holds a training with another {', '.join(changed)}; resume it as it was or take a new folder"
        )
    if (old["data"], old.get("pool")) != (new["data"], new.get("pool")):
        raise checkpoint.BadCheckpoint(f"{folder} holds a training on other images; take a new folder")


def _result(trainer: Trainer, folder: Path) -> PretrainResult:
    watch = trainer.watch
    message = watch.alarm or f"Trained {trainer.step} of {trainer.steps} steps without collapse.{watch.told()}"
    if watch.past and not watch.alarm:
        message = f"Trained {trainer.step} of {trainer.steps} steps. For a while this was wrong: {watch.past}"
    encoder = load_encoder(folder, trainer.device)
    return PretrainResult(
        encoder, load_centres(folder), folder, checkpoint.history(folder), watch.alarm is not None, message
    )

"""Estimating a pre-training's centres from its images (Eq. 2), with progress and a look at stop at each batch."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from core.engine import processes
from core.engine.augment.share import Share
from core.engine.objectives.centres import estimate_centres
from core.engine.progress import Stopped
from core.engine.tensors import autocast
from core.engine.training.joint_norm import JointBatchNorm
from core.engine.training.stages import train_mode

if TYPE_CHECKING:
    from core.engine.training.pretraining import Pretraining

SAY = 5.0  # seconds between two reports


def estimated_centres(training: Pretraining, draws: torch.Generator) -> Tensor:
    """By the encoder as it is, with the statistics of each batch (as in training), which leave no trace in it.

    Each image is passed once for each class. Several processes share each batch. Raises Stopped when asked to stop.
    """
    t, world = training, processes.world()
    count, wanted = len(t.data.images), t.config.centre_images or len(t.data.images)
    chosen = torch.randperm(count, generator=draws)[:wanted].numpy()
    parts = min(math.ceil(len(chosen) / t.per_step), len(chosen) // world)
    if not parts:
        raise ValueError(f"centres of {len(chosen)} images cannot be estimated by {world} processes; give more images")
    encoder = train_mode(copy.deepcopy(t.encoder), t.still)

    def features(images: Tensor) -> Tensor:
        with autocast(t.device, t.half):
            return encoder(images.contiguous(memory_format=t.format)).float()

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        done, said = 0, time.monotonic()
        for part in np.array_split(chosen, parts):
            if t.should_stop is not None and t.should_stop():
                raise Stopped("pre-training was stopped while its centres were estimated; it begins with them anew")
            if t.report is not None and time.monotonic() - said >= SAY:
                message = f"Estimating centres: {done} of {len(chosen)} images"
                t.report({"step": t.step, "steps": t.steps, "message": message})
                said = time.monotonic()
            x, inside = t.data.batch(part, t.device)
            share = Share.of(len(part), processes.rank(), world) if world > 1 else None
            yield t.objective.samples(x, draws, inside, t.config.centre_weak, share)
            done += len(part)

    with JointBatchNorm():
        return estimate_centres(features, batches(), t.objective.classes)

"""The centres c_n of the classes A_n (Eq. 2; four kinds, Sec. Centering Strategies)."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from core.engine import processes
from core.engine.augment.strong import Share
from core.engine.progress import Stopped
from core.engine.tensors import autocast
from core.engine.training.joint import JointBatchNorm
from core.engine.training.schedule import train_mode

if TYPE_CHECKING:
    from core.engine.training.pretraining import Pretraining


@torch.no_grad()
def estimate_centres(
    features: Callable[[Tensor], Tensor], batches: Iterable[tuple[Tensor, Tensor]], count: int
) -> Tensor:
    """c_n = E f_theta(a(x)), a ~ A_n: the mean feature of each class (Eq. 2).

    features: (M, 3, S, S) -> (M, D). batches: pairs of images (M, 3, S, S) and their classes (M,).
    Returns (count, D) float32; sums are kept in float64, so neither batch size nor order matters to the result. Where
    several processes work as one, each gives its own batches and all get the centres of all.
    Raises ValueError if a class never occurs.
    """
    total, seen = None, torch.zeros(count, dtype=torch.float64)
    for images, labels in batches:
        z = features(images).double()
        one_hot = torch.nn.functional.one_hot(labels.to(z.device), count).double()  # (M, count)
        total = one_hot.T @ z if total is None else total + one_hot.T @ z
        seen += one_hot.sum(0).cpu()
    if total is not None:
        total, seen = processes.total(total), processes.total(seen.to(total.device)).cpu()
    if total is None or bool((seen == 0).any()):
        raise ValueError("a class without a single image has no centre; give more images")
    return (total / seen.to(total.device)[:, None]).float()


def random_centres(count: int, dim: int, scale: float, generator: torch.Generator) -> Tensor:
    """(count, dim), each coordinate drawn from a normal distribution of standard deviation `scale`."""
    return torch.randn((count, dim), generator=generator) * scale


def equidistant_centres(count: int, dim: int, scale: float, generator: torch.Generator) -> Tensor:
    """(count, dim): corners of a regular simplex around the origin, turned at random, `scale` from the origin each.

    Every two of them are scale * sqrt(2 count / (count - 1)) apart. Raises ValueError unless dim >= count >= 2.
    """
    if not 2 <= count <= dim:
        raise ValueError(
            f"{count} equidistant centres need a space of at least {count} dimensions, and at least two centres"
        )
    frame = torch.linalg.qr(torch.randn((dim, count), generator=generator, dtype=torch.float64)).Q.T  # orthonormal rows
    corners = frame - frame.mean(0)
    return (scale * torch.nn.functional.normalize(corners, dim=1)).float()


# Estimating a pre-training's centres from its images (Eq. 2), with progress and a look at stop at each batch.


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

"""One step of a pre-training by several processes: each makes views of its share, and all see the joint batch's loss.

Each process passes its own views through the encoder and gathers the features of all, with their gradient, so that
every view is contrasted with those of all processes. The loss of the joint batch is then computed on each. Backward, a
feature gets the sum of what the equal losses of all processes ask of it; DistributedDataParallel takes the mean of the
parameters' gradients over processes, which gives the gradient of one process with the joint batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather
from torch.nn.parallel import DistributedDataParallel

from core.engine import processes
from core.engine.backbones.encoder import Encoder
from core.engine.backbones.timm_models import TimmBackbone
from core.engine.objectives.base import Objective, Outcome, Views

Features = Callable[[Tensor], tuple[Tensor, Tensor]]


class JointStep(nn.Module):
    """Encoder and objective as one forward pass, from this process's views to the loss of the joint batch."""

    def __init__(self, encoder: Encoder, objective: Objective, features: Features) -> None:
        """features(images) -> h (M, F), z (M, D): the encoder's."""
        super().__init__()
        self.encoder, self.objective, self.features = encoder, objective, features

    def forward(self, own: Views, centres: Tensor | None) -> tuple[Outcome, Views]:
        """Returns the outcome and the views of the joint batch (of whose images this process's alone)."""
        h, z = self.features(own.images)
        if processes.world() > 1:
            z = z if self.objective.uses_projection else z.detach()
            h, z, own = joined(_of_all(h, z, own))
        outcome: Outcome = self.objective.loss(h, z, own, centres)
        outcome.h = h.detach()
        return outcome, own


def joint_step(encoder: Encoder, objective: Objective, features: Features) -> nn.Module:
    """Returns the pass of a step; if there are several processes, their gradients are averaged after each backward."""
    step = JointStep(encoder, objective, features)
    if processes.world() == 1:
        return step
    return DistributedDataParallel(step, find_unused_parameters=not objective.uses_projection)


def share_norms(encoder: Encoder, device: torch.device) -> None:
    """Has batch norms take their statistics of all processes' batches, where there are several with a GPU each."""
    if processes.world() > 1 and device.type == "cuda":
        convert = nn.SyncBatchNorm.convert_sync_batchnorm
        if isinstance(encoder.arch, TimmBackbone):  # its batch norms carry the activation that follows
            from timm.layers import convert_sync_batchnorm as convert
        encoder.net = convert(encoder.net)


def rows_of_process(rows: Tensor) -> Tensor:
    """Returns this process's share of the rows of a joint batch (B,).

    Raises ValueError unless all shares are equal and of at least two images: lesions are cut from another one.
    """
    world = processes.world()
    if world > 1 and (len(rows) % world or len(rows) < 2 * world):
        raise ValueError(
            f"a step of {len(rows)} images cannot be shared by {world} processes: change the batch to a multiple of "
            f"{world}, with at least two images each"
        )
    return rows[processes.rank() :: world]


def joined(parts: Sequence[tuple[Tensor, Tensor, Views]]) -> tuple[Tensor, Tensor, Views]:
    """Joins h, z and views of all processes, by rank, in the order of `Views`: each kind of image together."""
    views = [own for _, _, own in parts]
    firsts = [rank * len(own.labels) for rank, own in enumerate(views)]
    strong = None if views[0].strong is None else torch.cat([own.strong for own in views])  # type: ignore[misc]
    places = None if views[0].places is None else torch.cat([own.places for own in views])  # type: ignore[misc]
    counts = [0 if x is None else len(x) for x in (views[0].labels, views[0].strong, views[0].places, views[0].places)]

    def ordered(of_all: list[Tensor]) -> Tensor:
        return torch.cat([torch.cat(kind) for kind in zip(*(x.split(counts) for x in of_all), strict=True)])

    joint = Views(
        views[processes.rank()].images,
        torch.cat([own.labels for own in views]),
        torch.cat([own.partners + first for own, first in zip(views, firsts, strict=True)]),
        places,
        strong,
    )
    return ordered([h for h, _, _ in parts]), ordered([z for _, z, _ in parts]), joint


def _of_all(h: Tensor, z: Tensor, own: Views) -> list[tuple[Tensor, Tensor, Views]]:
    """What every process has, by rank; h and z with their gradient."""

    def values(x: Tensor | None) -> Sequence[Tensor | None]:
        if x is None:
            return [None] * processes.world()
        parts = [torch.empty_like(x) for _ in range(processes.world())]
        dist.all_gather(parts, x.contiguous())
        return parts

    every = (all_gather(h.contiguous()), all_gather(z.contiguous()) if z.requires_grad else values(z))
    others = zip(values(own.labels), values(own.partners), values(own.places), values(own.strong), strict=True)
    views = [Views(own.images, *each) for each in others]  # type: ignore[arg-type]
    return list(zip(*every, views, strict=True))

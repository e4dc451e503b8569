"""One step of a pre-training by several processes: each makes views of its share, all compute the joint batch's loss.

Each process passes its views through the encoder and gathers the features of all processes, with their gradients, so
that every view is contrasted with all views of the joint batch. Each process then computes the loss of the joint batch.
In the backward pass a feature gets the sum of the gradients of these equal losses. DistributedDataParallel averages the
parameters' gradients over processes, which gives the gradient of a single process with the joint batch.
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
        """features: computes the encoder's features h (M, F) and projections z (M, D) of images."""
        super().__init__()
        self.encoder, self.objective, self.features = encoder, objective, features

    def forward(self, views: Views, centres: Tensor | None) -> tuple[Outcome, Views]:
        """Returns the outcome and the views of the joint batch, with the images of this process only."""
        h, z = self.features(views.images)
        if processes.world() > 1:
            z = z if self.objective.uses_projection else z.detach()
            h, z, views = joined(_of_all(h, z, views))
        outcome: Outcome = self.objective.loss(h, z, views, centres)
        outcome.h = h.detach()
        return outcome, views


def joint_step(encoder: Encoder, objective: Objective, features: Features) -> nn.Module:
    """Returns the module of a step; with several processes it averages their gradients in each backward pass."""
    step = JointStep(encoder, objective, features)
    if processes.world() == 1:
        return step
    return DistributedDataParallel(step, find_unused_parameters=not objective.uses_projection)


def share_norms(encoder: Encoder, device: torch.device) -> None:
    """Makes batch norms use the statistics of the joint batch, if there are several processes with a GPU each."""
    if processes.world() > 1 and device.type == "cuda":
        convert = nn.SyncBatchNorm.convert_sync_batchnorm
        if isinstance(encoder.arch, TimmBackbone):  # its batch norms carry the activation that follows
            from timm.layers import convert_sync_batchnorm as convert
        encoder.net = convert(encoder.net)


def rows_of_process(rows: Tensor) -> Tensor:
    """Returns this process's share of the rows of a joint batch (B,).

    Raises ValueError unless all shares have the same size of at least two images: lesions are cut from another image.
    """
    world = processes.world()
    if world > 1 and (len(rows) % world or len(rows) < 2 * world):
        raise ValueError(
            f"a step of {len(rows)} images cannot be shared by {world} processes: change the batch to a multiple of "
            f"{world}, with at least two images each"
        )
    return rows[processes.rank() :: world]


def joined(parts: Sequence[tuple[Tensor, Tensor, Views]]) -> tuple[Tensor, Tensor, Views]:
    """Concatenates h, z and views of all processes, ordered by rank within each kind of image of `Views`."""
    views = [v for _, _, v in parts]
    firsts = [rank * len(v.labels) for rank, v in enumerate(views)]
    strong = None if views[0].strong is None else torch.cat([v.strong for v in views])  # type: ignore[misc]
    positions = None if views[0].places is None else torch.cat([v.places for v in views])  # type: ignore[misc]
    counts = [0 if x is None else len(x) for x in (views[0].labels, views[0].strong, views[0].places, views[0].places)]

    def ordered(of_all: list[Tensor]) -> Tensor:
        return torch.cat([torch.cat(kind) for kind in zip(*(x.split(counts) for x in of_all), strict=True)])

    joint = Views(
        views[processes.rank()].images,
        torch.cat([v.labels for v in views]),
        torch.cat([v.partners + first for v, first in zip(views, firsts, strict=True)]),
        positions,
        strong,
    )
    return ordered([h for h, _, _ in parts]), ordered([z for _, z, _ in parts]), joint


def _of_all(h: Tensor, z: Tensor, own: Views) -> list[tuple[Tensor, Tensor, Views]]:
    """Gathers h, z and views of every process, by rank; h and z with their gradients."""

    def values(x: Tensor | None) -> Sequence[Tensor | None]:
        if x is None:
            return [None] * processes.world()
        gathered = [torch.empty_like(x) for _ in range(processes.world())]
        dist.all_gather(gathered, x.contiguous())
        return gathered

    every = (all_gather(h.contiguous()), all_gather(z.contiguous()) if z.requires_grad else values(z))
    fields = zip(values(own.labels), values(own.partners), values(own.places), values(own.strong), strict=True)
    views = [Views(own.images, *values_of_rank) for values_of_rank in fields]  # type: ignore[arg-type]
    return list(zip(*every, views, strict=True))

"""One step of a pre-training by several processes: each makes views of its share, and all see the joint batch's loss.

Each process passes its own views through the encoder (batch norm over all of them, joint_norm.py) and gathers the
features of all with their gradient, so that every view is contrasted with those of all processes. The loss of the
joint batch is then computed on each. Backward, a feature gets the sum of what the `world` equal losses ask of it;
DistributedDataParallel takes the mean over processes, which gives the gradient of one process with the joint batch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from core.engine import processes
from core.engine.backbones.encoder import Encoder
from core.engine.objectives.base import Objective, Views
from core.engine.training.group import Group

Features = Callable[[Tensor], tuple[Tensor, Tensor]]


class _Network(nn.Module):
    """The encoder as one forward pass, which is what DistributedDataParallel watches."""

    def __init__(self, encoder: Encoder, features: Features, projection: bool) -> None:
        super().__init__()
        self.encoder, self.features, self.projection = encoder, features, projection

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        h, z = self.features(images)
        return h, z if self.projection else z.detach()


class JointStep:
    """features(images) -> h (M, F), z (M, D): the encoder's. With one process it is all that is called."""

    def __init__(self, encoder: Encoder, objective: Objective, features: Features, batch: int) -> None:
        self.features, self.objective, self.group = features, objective, Group(shared=True)
        self.share = self.group.part(batch)
        self.network = None
        if self.group.many:
            projection = objective.uses_projection
            self.network = DistributedDataParallel(
                _Network(encoder, features, projection), find_unused_parameters=not projection
            )

    def __call__(self, own: Views) -> tuple[Tensor, Tensor, Views]:
        """This process's views -> h and z of the joint batch, and its labels, partners and places."""
        if self.network is None:
            return *self.features(own.images), own
        with self.group.norms():
            h, z = self.network(own.images)
        count = len(own.labels)
        views = Views(
            own.images,
            self.group.gather(own.labels),
            self.group.places(own.partners),
            None if own.places is None else self.group.gather(own.places),
        )
        return _in_order(processes.gather(h), count), _in_order(processes.gather(z), count), views

    def after_backward(self) -> None:
        """Take the mean of the heads' gradients, which the encoder's hooks do not see."""
        self.group.mean_gradients(self.objective.parameters())


def _in_order(x: Tensor, count: int) -> Tensor:
    """x (P, M, D) by process -> (P M, D): the views of all, then all first patches of pairs, then all second ones."""
    pairs = (x.shape[1] - count) // 2
    return torch.cat([part.flatten(0, 1) for part in x.split([count, pairs, pairs], 1)])

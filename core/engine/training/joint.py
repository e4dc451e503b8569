"""One step of a pre-training by several processes: each makes views of its share, and all see the joint batch's loss.

Each process passes its own views through the encoder (batch norm over all of them, JointBatchNorm) and gathers the
features of all with their gradient, so that every view is contrasted with those of all processes. The loss of the
joint batch is then computed on each. Backward, a feature gets the sum of what the `world` equal losses ask of it;
DistributedDataParallel takes the mean over processes, which gives the gradient of one process with the joint batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

from core.engine import processes
from core.engine.augment.strong import Part, Share
from core.engine.backbones.encoder import Encoder
from core.engine.objectives.base import Objective, Views

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
    """One pass of several processes through the encoder, which gives each the features of the joint batch.

    features(images) -> h (M, F), z (M, D): the encoder's. With one process it is all that is called.
    """

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
        """Takes this process's views; returns h and z of the joint batch, and its labels, partners and places."""
        if self.network is None:
            return *self.features(own.images), own
        with self.group.norms():
            h, z = self.network(own.images)
        views = Views(
            own.images,
            self.group.gather(own.labels),
            self.group.places(own.partners),
            None if own.places is None else self.group.gather(own.places),
            None if own.strong is None else self.group.gather(own.strong),
        )
        return _in_order(processes.gather(h), own), _in_order(processes.gather(z), own), views

    def after_backward(self) -> None:
        """Take the mean of the heads' gradients, which the encoder's hooks do not see."""
        self.group.mean_gradients(self.objective.parameters())


def _in_order(x: Tensor, own: Views) -> Tensor:
    """x (P, M, D) by process -> (P M, D): as a joint batch's `Views` has them, each kind of all processes together."""
    views, strong, pairs = (0 if tensor is None else len(tensor) for tensor in (own.labels, own.strong, own.places))
    return torch.cat([kind.flatten(0, 1) for kind in x.split([views, strong, pairs, pairs], 1)])


# What a step needs where several processes do it as one: each works on its rows of the joint batch.
#
# Every process draws for the whole batch. Batch norm takes its statistics of all (JointBatchNorm), with their gradient,
# and losses are means over the rows at hand, or of what `gather` brings together; the mean of the processes' gradients
# is then that of one process with the joint batch. With one process nothing here does anything.


class Group:
    """The processes of torchrun if `shared`, else this one alone."""

    def __init__(self, shared: bool = False) -> None:
        self.world = processes.world() if shared else 1

    @property
    def many(self) -> bool:
        return self.world > 1

    def even(self, count: int) -> int:
        """Returns the most of `count` images that can be shared evenly."""
        return count - count % self.world

    def part(self, count: int) -> Part:
        """Gives this process's rows of a step of `count` images; None: all. Raises ValueError if shares are uneven."""
        if count % self.world:
            world = self.world
            raise ValueError(f"a step of {count} images is not shared evenly by {world} processes: change the batch")
        return Share.of(count, processes.rank(), self.world) if self.many else None

    def norms(self) -> contextlib.AbstractContextManager[object]:
        """Returns a context in which batch norm in training mode sees the joint batch."""
        return JointBatchNorm() if self.many else contextlib.nullcontext()

    def gather(self, x: Tensor) -> Tensor:
        """Gathers x (B, ...) of this process -> (world B, ...) of all by rank, with the gradient."""
        return processes.gather(x).flatten(0, 1) if self.many else x

    def places(self, index: Tensor) -> Tensor:
        """Gathers index (B,) into this process's B rows -> (world B,) of all by rank, into the joint rows."""
        firsts = len(index) * torch.arange(self.world, device=index.device).repeat_interleave(len(index))
        return self.gather(index) + firsts

    def mean_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replaces gradients, after backward, by their mean over the processes, exchanged at once."""
        if not self.many:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            return
        flat = processes.total(torch.cat([g.reshape(-1) for g in gradients])) / self.world
        for g, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            g.copy_(mean.view(g.shape))

    def means(self, numbers: dict[str, float], device: torch.device) -> dict[str, float]:
        """Computes means over the processes, the same on each: whether a loss is finite is then decided alike."""
        if not self.many:
            return numbers
        mean = processes.total(torch.tensor(list(numbers.values()), dtype=torch.float64, device=device)) / self.world
        return dict(zip(numbers, mean.tolist(), strict=True))


# Batch norm over the batches of all processes: what nn.SyncBatchNorm does on GPUs alone, on any device.
#
#     with JointBatchNorm():
#         h = encoder(images)  # in training mode: mean and variance of the joint batch
#
# Every layer that calls torch.nn.functional.batch_norm is reached, timm's among them, and none is replaced, so that
# checkpoints and saved encoders are those of one process.


class JointBatchNorm(TorchFunctionMode):
    """A context in which batch norm in training mode takes its statistics of all processes' batches."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.batch_norm and processes.world() > 1:
            return joint_batch_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def joint_batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Computes F.batch_norm with the statistics of all processes' x (B, C, ...); batches may differ in size.

    Each process sends mean, variance and count once; they are joined after Chan, Golub and LeVeque (1983), as no
    difference of large sums. Gradients flow through them to every process.
    """
    if not training:
        return F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    dims = [0, *range(2, x.ndim)]
    var, mean = torch.var_mean(x.float(), dims, correction=0)  # (C,)
    count = mean.new_full((1,), x.numel() / x.shape[1])
    parts = processes.gather(torch.cat([mean, var, count]))  # (P, 2 C + 1)
    means, variances = parts[:, :-1].chunk(2, 1)
    every = parts[:, -1].sum()
    share = (parts[:, -1] / every)[:, None]
    mean = (share * means).sum(0)
    var = (share * (variances + (means - mean).square())).sum(0)
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((var * every / (every - 1)).to(running_var.dtype), momentum)
    scale = torch.rsqrt(var + eps) if weight is None else torch.rsqrt(var + eps) * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    size = (1, -1, *[1] * (x.ndim - 2))
    return x * scale.to(x.dtype).view(size) + shift.to(x.dtype).view(size)

"""What a step needs where several processes do it as one: each works on its rows of the joint batch.

Every process draws for the whole batch. Batch norm takes its statistics of all (joint_norm.py), with their gradient,
and losses are means over the rows at hand, or of what `gather` brings together; the mean of the processes' gradients
is then that of one process with the joint batch. With one process nothing here does anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from core.engine import processes
from core.engine.augment.share import Part, Share
from core.engine.training.joint_norm import JointBatchNorm


class Group:
    """The processes of torchrun if `shared`, else this one alone."""

    def __init__(self, shared: bool = False) -> None:
        self.world = processes.world() if shared else 1

    @property
    def many(self) -> bool:
        return self.world > 1

    def even(self, count: int) -> int:
        """The most of `count` images that can be shared evenly."""
        return count - count % self.world

    def part(self, count: int) -> Part:
        """This process's rows of a step of `count` images; None for all. Raises ValueError if shares are not even."""
        if count % self.world:
            world = self.world
            raise ValueError(f"a step of {count} images is not shared evenly by {world} processes: change the batch")
        return Share.of(count, processes.rank(), self.world) if self.many else None

    def norms(self) -> contextlib.AbstractContextManager[object]:
        """Inside, batch norm in training mode sees the joint batch."""
        return JointBatchNorm() if self.many else contextlib.nullcontext()

    def gather(self, x: Tensor) -> Tensor:
        """x (B, ...) of this process -> (world B, ...) of all by rank, with the gradient."""
        return processes.gather(x).flatten(0, 1) if self.many else x

    def places(self, index: Tensor) -> Tensor:
        """index (B,) into this process's B rows -> (world B,) of all by rank, into the joint rows."""
        firsts = len(index) * torch.arange(self.world, device=index.device).repeat_interleave(len(index))
        return self.gather(index) + firsts

    def mean_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """After backward: the mean of the processes' gradients, exchanged at once."""
        if not self.many:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            return
        flat = processes.total(torch.cat([g.reshape(-1) for g in gradients])) / self.world
        for g, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            g.copy_(mean.view(g.shape))

    def means(self, numbers: dict[str, float], device: torch.device) -> dict[str, float]:
        """Means over the processes, the same on each: whether a loss is finite is then decided alike."""
        if not self.many:
            return numbers
        mean = processes.total(torch.tensor(list(numbers.values()), dtype=torch.float64, device=device)) / self.world
        return dict(zip(numbers, mean.tolist(), strict=True))

"""Base of the strong augmentations: each makes an image of class A_n out of a normal one and marks the change.

Weak augmentations (`weak.py`) keep the class; strong ones (members of `STRONG`) make it.
"""

from __future__ import annotations

import abc
from dataclasses import fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from core.engine.augment.mixed import Mixed
from core.engine.augment.share import Share, own
from core.engine.config import Config as BaseConfig
from core.engine.tensors import to_device


class Strong(abc.ABC):
    """Base of the strong augmentations. Parameters are drawn on the CPU, pixels computed on the images' device."""

    Config: ClassVar[type[BaseConfig]]

    def __init__(self, config: BaseConfig | None = None) -> None:
        self.config: Any = self.Config() if config is None else config

    @property
    def k(self) -> int:
        """Strongest class it can make: A_0 .. A_k."""
        return int(self.config.k)

    @abc.abstractmethod
    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """x (B, 3, S, S) -> class A_n of each; n an int or long (B,). roi (B, S, S), 1 inside. ValueError if n > k."""

    def counts(self, n: int | Tensor, x: Tensor) -> Tensor:
        """n as a long (B,) on the CPU, checked against k and the batch."""
        if x.ndim != 4 or x.shape[1] != 3 or x.shape[2] != x.shape[3]:
            raise ValueError(f"images must be (B, 3, S, S), square and in colour, not {tuple(x.shape)}")
        counts = torch.as_tensor(n).cpu().long()
        counts = counts.expand(len(x)).clone() if counts.ndim == 0 else counts
        if counts.shape != (len(x),):
            raise ValueError(f"n must be one number or one per image ({len(x)}), not {tuple(counts.shape)}")
        if len(counts) and (counts.min() < 0 or counts.max() > self.k):
            raise ValueError(f"n must be 0..{self.k} (k of the configuration), not {counts.min()}..{counts.max()}")
        return counts

    def classes(
        self, x: Tensor, k: int, generator: torch.Generator, roi: Tensor | None = None, share: Share | None = None
    ) -> Mixed:
        """x (B, 3, S, S) -> all classes A_0..A_k of each: B (k + 1) images, the classes running fastest.

        Donors are numbered as in x. share: which of x's classes to make, from the same draws as those of all.
        Override it where all classes at once cost less than one after another.
        """
        several = [self(x, n, generator, roi) for n in range(1, k + 1)]
        each = [self.blank(x, torch.zeros(len(x), dtype=torch.long)), *several]
        joined = {}
        for f in fields(Mixed):
            parts = [getattr(mixed, f.name) for mixed in each]
            joined[f.name] = torch.stack([own(part, share) for part in parts], 1).flatten(0, 1)
        return Mixed(**joined)

    def blank(self, x: Tensor, counts: Tensor) -> Mixed:
        """`x` as it is, with nothing marked."""
        size = (len(x), x.shape[2], x.shape[3])
        return Mixed(
            images=x,
            masks=torch.zeros(size, dtype=torch.bool, device=x.device),
            count=to_device(counts, x.device),
            boxes=torch.zeros(len(x), self.k, 4, dtype=torch.long, device=x.device),
            sources=torch.zeros(len(x), self.k, 4, dtype=torch.long, device=x.device),
            donors=torch.full((len(x), self.k), -1, dtype=torch.long, device=x.device),
            alpha=torch.zeros(size, device=x.device),
        )

    def whole(self, x: Tensor, images: Tensor, counts: Tensor) -> Mixed:
        """For augmentations of the whole image: all of it is marked where n > 0."""
        mixed = self.blank(x, counts)
        hit = to_device(counts > 0, x.device)
        mixed.images = images
        mixed.masks |= hit[:, None, None]
        mixed.alpha += hit[:, None, None]
        return mixed

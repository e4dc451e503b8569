"""Base of the strong augmentations, which turn a normal image into one of class A_n, with a mask of the change.

Weak augmentations (`weak.py`) keep the class; strong augmentations (members of `STRONG`) change it.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from core.engine.config import Config as BaseConfig
from core.engine.registry import STRONG
from core.engine.tensors import to_device


class Strong(abc.ABC):
    """Base of the strong augmentations. Parameters are drawn on the CPU, pixels computed on the images' device."""

    Config: ClassVar[type[BaseConfig]]
    presets: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, config: BaseConfig | None = None) -> None:
        self.config: Any = self.Config() if config is None else config

    @property
    def k(self) -> int:
        """The largest n: the classes are A_0 to A_k."""
        return int(self.config.k)

    @abc.abstractmethod
    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Returns each image of x (B, 3, S, S) in [0, 1] turned into class A_n; n: an int or long (B,), 0 to k.

        roi: (B, S, S), 1 inside, where changes are allowed. Raises ValueError if n or x is invalid.
        """

    def counts(self, n: int | Tensor, x: Tensor) -> Tensor:
        """Returns n as a long (B,) on the CPU. Raises ValueError if n or the images x are invalid."""
        if x.ndim != 4 or x.shape[1] != 3 or x.shape[2] != x.shape[3]:
            raise ValueError(f"images must be (B, 3, S, S), square and in colour, not {tuple(x.shape)}")
        counts = torch.as_tensor(n).cpu().long()
        counts = counts.expand(len(x)).clone() if counts.ndim == 0 else counts
        if counts.shape != (len(x),):
            raise ValueError(f"n must be one number or one per image ({len(x)}), not {tuple(counts.shape)}")
        if len(counts) and (counts.min() < 0 or counts.max() > self.k):
            raise ValueError(f"n must be 0..{self.k} (k of the configuration), not {counts.min()}..{counts.max()}")
        return counts

    def classes(self, x: Tensor, k: int, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Makes all classes A_0 to A_k of each image x (B, 3, S, S): B (k + 1) images, by image, then class.

        These are the x^(n) of Eq. 4. k: at most the k of the configuration. Donor indices refer to x. Subclasses
        override this method if making all classes at once is faster.
        """
        several = [self(x, n, generator, roi) for n in range(1, k + 1)]
        with_blank = [self.blank(x, torch.zeros(len(x), dtype=torch.long)), *several]
        joined = {}
        for f in fields(Mixed):
            joined[f.name] = torch.stack([getattr(mixed, f.name) for mixed in with_blank], 1).flatten(0, 1)
        return Mixed(**joined)

    def blank(self, x: Tensor, counts: Tensor) -> Mixed:
        """Returns `x` unchanged as a Mixed with `counts`, empty masks and no lesions."""
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
        """Returns augmented `images` of x as a Mixed whose masks cover the whole image if its count is above 0."""
        mixed = self.blank(x, counts)
        hit = to_device(counts > 0, x.device)
        mixed.images = images
        mixed.masks |= hit[:, None, None]
        mixed.alpha += hit[:, None, None]
        return mixed


# What a strong augmentation returns.


@dataclass
class Mixed:
    """A batch after a strong augmentation: B images of side S with at most k lesions each.

    images: float32 (B, 3, S, S) in [0, 1].
    masks: bool (B, S, S), True for every changed pixel, or for the whole image if the augmentation changes all of it.
    count: long (B,), class n of each image, 0 to k.
    boxes: long (B, k, 4), position of each lesion: y0, x0, y1, x1 in pixels, y1 and x1 exclusive; 0 where unused.
    sources: long (B, k, 4), the box from which it was cut in image `donors[b, i]`; 0 if it was drawn instead.
    donors: long (B, k), index of the donor image in the batch; B + j for image j of a pool; -1 without a donor.
    alpha: float32 (B, S, S) in [0, 1], share of the lesion in each pixel; MedMix's `masks` is alpha > 0.
    """

    images: Tensor
    masks: Tensor
    count: Tensor
    boxes: Tensor
    sources: Tensor
    donors: Tensor
    alpha: Tensor


# One lesion in each image, of several kinds.


def family(name: str) -> Strong:
    """Builds a strong augmentation from "name:preset", such as "medmix:soft", or from "name" with default options.

    Raises ValueError for an unknown name or preset.
    """
    kind, _, preset = name.partition(":")
    member = STRONG.get(kind)
    if not preset:
        return member()
    if preset not in member.presets:
        raise ValueError(f"{kind} has no preset {preset!r}; it has: {', '.join(sorted(member.presets))}")
    return member(member.presets[preset])


def paste_in_turn(
    kinds: Sequence[Strong], x: Tensor, generator: torch.Generator, roi: Tensor, first: int = 0
) -> tuple[Tensor, Tensor]:
    """Pastes one lesion (class A_1) into each image x (B, 3, S, S), cycling through the augmentations `kinds`.

    first: index of the first image that gets the first kind. Returns images (B, 3, S, S) and alpha (B, S, S).
    """
    mixed, alpha = x.clone(), torch.zeros_like(x[:, 0])
    for i, strong in enumerate(kinds):
        rows = torch.arange(len(x))[(i + first) % len(kinds) :: len(kinds)]
        if len(rows):
            # Each with the whole batch, so that it has images to cut from.
            counts = torch.zeros(len(x), dtype=torch.long).index_fill(0, rows, 1)
            views = strong(x, counts, generator, roi)
            mixed[rows], alpha[rows] = views.images[rows], views.alpha[rows]
    return mixed, alpha

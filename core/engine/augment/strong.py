"""Base class of strong augmentations, which turn a normal image into an image of class A_n with a mask of the change.

Weak augmentations (`weak.py`) keep the class; strong augmentations (registered in `STRONG`) change it.
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
    """Base class of strong augmentations. It draws parameters on the CPU and computes pixels on the images' device."""

    Config: ClassVar[type[BaseConfig]]
    presets: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, config: BaseConfig | None = None) -> None:
        self.config: Any = self.Config() if config is None else config

    @property
    def k(self) -> int:
        """Number of the last class; the classes are A_0 to A_k."""
        return int(self.config.k)

    @abc.abstractmethod
    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Turns each image into an image of class A_n.

        Args:
            x: Images `(B, 3, S, S)` in [0, 1].
            n: Class number, 0 to k: an integer for all images, or long `(B,)`.
            generator: Random generator on the CPU.
            roi: Regions of interest `(B, S, S)`, 1 where changes are allowed, preferably on the CPU, or None.

        Raises:
            ValueError: If n or x is invalid.
        """

    def counts(self, n: int | Tensor, x: Tensor) -> Tensor:
        """Returns the class numbers n of images x as long `(B,)` on the CPU. Raises ValueError if n or x is invalid."""
        if x.ndim != 4 or x.shape[1] != 3 or x.shape[2] != x.shape[3]:
            raise ValueError(f"images must be (B, 3, S, S), square and in colour, not {tuple(x.shape)}")
        counts = torch.as_tensor(n).cpu().long()
        counts = counts.expand(len(x)).clone() if counts.ndim == 0 else counts
        if counts.shape != (len(x),):
            raise ValueError(f"n must be one number or one per image ({len(x)}), not {tuple(counts.shape)}")
        if len(counts) and (counts.min() < 0 or counts.max() > self.k):
            raise ValueError(f"n must be 0 to k = {self.k}, not {counts.min()} to {counts.max()}")
        return counts

    def classes(self, x: Tensor, k: int, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Makes an image of each class A_0 to A_k from each image of x; these are the x^(n) of Eq. 4.

        Returns B (k + 1) images, ordered by image, then by class. `k` must not exceed the k of the configuration. Donor
        indices refer to x. Subclasses override this method if they can make all classes together faster.
        """
        several = [self(x, n, generator, roi) for n in range(1, k + 1)]
        with_blank = [self.blank(x, torch.zeros(len(x), dtype=torch.long)), *several]
        joined = {}
        for f in fields(Mixed):
            joined[f.name] = torch.stack([getattr(mixed, f.name) for mixed in with_blank], 1).flatten(0, 1)
        return Mixed(**joined)

    def blank(self, x: Tensor, counts: Tensor) -> Mixed:
        """Returns unchanged images `x` as a Mixed with the class numbers `counts`, empty masks and no lesions."""
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
        """Returns `images`, made from x, as a Mixed; masks cover the entire image in all classes but A_0."""
        mixed = self.blank(x, counts)
        hit = to_device(counts > 0, x.device)
        mixed.images = images
        mixed.masks |= hit[:, None, None]
        mixed.alpha += hit[:, None, None]
        return mixed


@dataclass
class Mixed:
    """Result of a strong augmentation: B images of side length S with at most k lesions each.

    Attributes:
        images: float32 `(B, 3, S, S)` in [0, 1].
        masks: bool `(B, S, S)`, True for every changed pixel, or everywhere if the augmentation changes the whole
            image.
        count: Class n of each image, 0 to k, long `(B,)`.
        boxes: Box (y0, x0, y1, x1) of each lesion in pixels, long `(B, k, 4)`; y1 and x1 are exclusive, unused slots 0.
        sources: Box that each lesion was cut from in the donor image, long `(B, k, 4)`, or 0 if the lesion was drawn.
        donors: Index in the batch of the image that each lesion was cut from, long `(B, k)`. B + j means image j of the
            pool of images from another study, and -1 that the lesion was not cut from an image.
        alpha: Weight of the lesion in each pixel, float32 `(B, S, S)` in [0, 1]. In MedMix, `masks` is alpha > 0.
    """

    images: Tensor
    masks: Tensor
    count: Tensor
    boxes: Tensor
    sources: Tensor
    donors: Tensor
    alpha: Tensor


def family(name: str) -> Strong:
    """Builds a strong augmentation from "name:preset", such as "medmix:soft", or from "name" with default options.

    Raises ValueError if the name or the preset is unknown.
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
    """Pastes one lesion (class A_1) into each image x `(B, 3, S, S)`, alternating between `kinds`.

    Image number `first` gets the first of `kinds`. Returns the images and the lesions' weights `(B, S, S)`.
    """
    mixed, alpha = x.clone(), torch.zeros_like(x[:, 0])
    for i, strong in enumerate(kinds):
        rows = torch.arange(len(x))[(i + first) % len(kinds) :: len(kinds)]
        if len(rows):
            # The whole batch is passed, so that lesions can be cut from any image.
            counts = torch.zeros(len(x), dtype=torch.long).index_fill(0, rows, 1)
            views = strong(x, counts, generator, roi)
            mixed[rows], alpha[rows] = views.images[rows], views.alpha[rows]
    return mixed, alpha

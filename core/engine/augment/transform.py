"""MedMix as one transform, for anyone's training loop."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.registry import STRONG


class MedMix:
    """A transform that pastes up to k lesions into each image: `MedMix(k=3)(images) -> images, masks, counts`.

    Args:
        k: the most lesions an image gets; each image's number is drawn from 0 to k, evenly.
        preset: `quick`, `paper`, `endoscopy`, `fundus`, `xray`, ...; settings: changes to it, as `size=(0.1, 0.3)`.
        seed: seed of the draws. Two transforms of one seed give the same; in a DataLoader give each worker its own.

    Use it on whole batches, in a loop or as part of a collate function: lesions come from the other images.

        for images in loader:                       # (B, 3, S, S) in [0, 1]
            images, masks, counts = medmix(images)  # (B, 3, S, S), bool (B, S, S), long (B,)
    """

    def __init__(self, k: int = 3, preset: str = "quick", seed: int = 0, **settings: Any) -> None:
        if preset not in MEDMIX_PRESETS:
            raise ValueError(f"there is no MedMix preset {preset!r}; there are: {', '.join(MEDMIX_PRESETS)}")
        self.config = MEDMIX_PRESETS[preset].replace(k=k, **settings)
        self.strong = STRONG.get("medmix")(self.config)
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(
        self, images: Tensor, roi: Tensor | None = None, counts: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Pastes lesions into images, float (B, 3, S, S) in [0, 1]; returns images, masks and counts.

        roi (B, S, S), 1 where lesions may lie; counts (B,), drawn if not given.
        Raises ValueError for images that are not square and in colour, and for a count above k.
        """
        if counts is None:
            counts = torch.randint(0, self.config.k + 1, (len(images),), generator=self.generator)
        mixed = self.strong(images, counts, self.generator, roi)
        return mixed.images, mixed.masks, mixed.count

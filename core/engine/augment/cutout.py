"""Cutout as the strong augmentation (DeVries and Taylor 2017; compared in Fig. ablation_transformation)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from core.engine.augment.boxes import draw_boxes, fill
from core.engine.augment.config import spread, strong_classes
from core.engine.augment.mixed import Mixed
from core.engine.augment.placement import sides
from core.engine.augment.strong import Strong
from core.engine.config import Config, option
from core.engine.registry import STRONG
from core.engine.tensors import to_device


@dataclass(frozen=True)
class CutoutConfig(Config):
    """Options of cutout."""

    k: int = strong_classes()
    size: tuple[float, float] = spread((0.15, 0.3), "Side of a square hole, of the image's.", 0.01, 1)
    fill: str = option("mean", "mean: the image's own colour.", choices=("mean", "black", "grey"))


@STRONG.register("cutout", title="Cutout", section="Fig. ablation_transformation")
class Cutout(Strong):
    Config = CutoutConfig
    config: CutoutConfig

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """A_n has n holes, apart from one another."""
        counts = self.counts(n, x)
        side = x.shape[-1]
        lengths = sides(torch.rand(len(x), self.k, 2, generator=generator), self.config.size, 1.0, side)
        mixed = self.blank(x, counts)
        mixed.boxes = draw_boxes(counts, lengths, side, generator, roi, apart=True).to(x.device)
        holes = fill(mixed.boxes, side)
        if roi is not None:
            holes &= to_device(roi, x.device) > 0
        if self.config.fill == "mean":
            colour = x.mean((2, 3), keepdim=True)
        else:
            colour = x.new_full((1, 1, 1, 1), 0.5 if self.config.fill == "grey" else 0.0)
        mixed.images = torch.where(holes[:, None], colour, x)
        mixed.masks, mixed.alpha = holes, holes.to(x.dtype)
        return mixed

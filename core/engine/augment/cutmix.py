"""CutMix as the strong augmentation (Yun et al. 2019; compared in Fig. ablation_transformation)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from core.engine.augment.boxes import draw_boxes, fill
from core.engine.augment.config import spread, strong_classes
from core.engine.augment.mixed import Mixed
from core.engine.augment.strong import Strong
from core.engine.config import Config
from core.engine.registry import STRONG
from core.engine.tensors import to_device


@dataclass(frozen=True)
class CutMixConfig(Config):
    """Options of CutMix."""

    k: int = strong_classes()
    area: tuple[float, float] = spread(
        (0.05, 0.5), "Part of the image that is replaced (CutMix's 1 - lambda), shared among the n boxes.", 0.001, 1
    )


@STRONG.register("cutmix", title="CutMix", section="Fig. ablation_transformation")
class CutMix(Strong):
    Config = CutMixConfig
    config: CutMixConfig

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """n boxes are filled from the same places of another image of the batch (of itself if it is alone)."""
        counts = self.counts(n, x)
        b, side = len(x), x.shape[-1]
        u = torch.rand(b, self.k, 2, generator=generator)
        area = self.config.area[0] + u[:, 0, 0] * (self.config.area[1] - self.config.area[0])
        edge = ((area / counts.clamp(min=1)).sqrt() * side).round().clamp(1, side)
        boxes = draw_boxes(counts, edge[:, None, None].expand(b, self.k, 2), side, generator, roi, apart=False)
        donor = (torch.arange(b) + 1 + (u[:, 0, 1] * (b - 1)).long().clamp_(max=max(b - 2, 0))) % b
        mixed = self.blank(x, counts)
        mixed.boxes = to_device(boxes, x.device)
        used = torch.arange(self.k)[None] < counts[:, None]
        mixed.sources = mixed.boxes.clone()
        mixed.donors = torch.where(used, donor[:, None], -1).to(x.device)
        inside = fill(mixed.boxes, side)
        if roi is not None:
            inside &= to_device(roi, x.device) > 0
        mixed.images = torch.where(inside[:, None], x[to_device(donor, x.device)], x)
        mixed.masks, mixed.alpha = inside, inside.to(x.dtype)
        return mixed

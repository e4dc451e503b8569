"""From an encoder's maps to patches, and from the patches of normal images to a memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import roi_at
from core.engine.detectors.nearest.coreset import greedy_coreset
from core.engine.detectors.nearest.memory import Memory, Pool


def patches_of(maps: dict[int, Tensor], strides: tuple[int, ...]) -> Tensor:
    """Maps (B, C, h, w) by stride -> (B, h, w, D + 2) on the finest stride's grid: features, then the place.

    Each map is averaged over 3 x 3 cells (of the image alone at its edge) and interpolated to that grid. The place is
    (y, x) of the cell's middle, from 0 to 1.
    """
    shape = maps[strides[0]].shape[2:]
    parts = []
    for stride in strides:
        m = F.avg_pool2d(maps[stride].float(), 3, 1, 1, count_include_pad=False)
        if m.shape[2:] != shape:
            m = F.interpolate(m, shape, mode="bilinear", align_corners=False)
        parts.append(m)
    y, x = (torch.arange(n, device=m.device).add(0.5).div(n) for n in shape)
    place = torch.stack(torch.meshgrid(y, x, indexing="ij"))  # (2, h, w)
    parts.append(place.expand(m.shape[0], -1, -1, -1))
    return torch.cat(parts, 1).permute(0, 2, 3, 1)


def scales_of(pool: Tensor, widths: list[int], balance: bool, position: float) -> Tensor:
    """(D + 2,): what each value of a patch is multiplied by before distances are taken. pool (N, D + 2).

    balance: each map's features get a variance of 1 in all. The place is put on the scale of the features' deviation.
    """
    variances = [part.var(0, unbiased=False).sum() for part in pool[:, :-2].split(widths, 1)]
    factors = [v.clamp(min=1e-12).rsqrt() if balance else torch.ones_like(v) for v in variances]
    total = sum(v * f.square() for v, f in zip(variances, factors, strict=True))
    parts = [f.expand(width) for f, width in zip(factors, widths, strict=True)]
    return torch.cat([*parts, (position * total.sqrt()).expand(2)])


class NearestFitting:
    """The fit of a memory under way: patches are drawn from each image as its maps come by."""

    def __init__(self, kind: Any, encoder: Encoder, config: Any, count: int, size: int, roi: np.ndarray | None) -> None:
        self.kind, self.encoder, self.config, self.size, self.roi = kind, encoder, config, size, roi
        self.pool = Pool(config.pool, count, config.seed)

    def add(self, maps: dict[int, Tensor], start: int) -> None:
        patches = patches_of(maps, self.config.strides)
        shape = tuple(patches.shape[1:3])
        inside = None if self.roi is None else roi_at(self.roi[start : start + len(patches)], shape)
        for i, features in enumerate(patches.flatten(1, 2)):
            self.pool.add(features, start + i, None if inside is None else inside[i].ravel())

    def finish(self) -> Any:
        """The detector. Its memory is chosen from the pool by the configuration's seed."""
        config = self.config
        features, rows, cells = self.pool.all()
        widths = [self.encoder.widths[stride] for stride in config.strides]
        scales = scales_of(features, widths, config.balance, config.position)
        features = features * scales
        generator = torch.Generator().manual_seed(config.seed)
        if config.coreset == "greedy":
            kept = greedy_coreset(features, config.patches, generator)
        else:
            kept = torch.randperm(len(features), generator=generator)[: config.patches].to(features.device)
        memory = Memory.of(features[kept], rows[kept], cells[kept], config.neighbours)
        return self.kind(self.encoder, config, self.size, scales, memory)

"""Rotation as the strong augmentation (Golan and El-Yaniv 2018; compared in Fig. ablation_transformation)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.config import strong_classes
from core.engine.augment.mixed import Mixed
from core.engine.augment.strong import Strong
from core.engine.config import Config
from core.engine.registry import STRONG


@dataclass(frozen=True)
class RotationConfig(Config):
    """Options of rotation."""

    k: int = strong_classes("A_n is turned by n 360 / (k + 1) degrees, anticlockwise; with 3, quarter turns, exactly.")


@STRONG.register("rotation", title="Rotation", section="Fig. ablation_transformation")
class Rotation(Strong):
    Config = RotationConfig
    config: RotationConfig

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Nothing is drawn: the class is the angle. Corners that turn in from outside mirror the image."""
        counts = self.counts(n, x)
        images = x.clone()
        for m in sorted(set(counts.tolist()) - {0}):
            rows = torch.nonzero(counts == m)[:, 0].to(x.device)
            images[rows] = turned(x[rows], m / (self.k + 1))
        return self.whole(x, images, counts)


def turned(x: Tensor, turns: float) -> Tensor:
    """x (B, 3, S, S) turned anticlockwise by `turns` of a full one."""
    quarters = turns * 4
    if quarters == round(quarters):
        return torch.rot90(x, round(quarters), (2, 3))
    c, s = math.cos(2 * math.pi * turns), math.sin(2 * math.pi * turns)
    matrix = torch.tensor([[c, -s, 0.0], [s, c, 0.0]], dtype=x.dtype, device=x.device)
    grid = F.affine_grid(matrix.expand(len(x), 2, 3), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)

"""Small smooth pictures for the tests of augmentation."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from core.engine.augment.strong import Strong


def tissue(count: int, side: int, seed: int = 0) -> torch.Tensor:
    """float32 (count, 3, side, side) in [0.1, 0.9]: smooth colours with a little grain, no two pixels alike."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 6, 6, generator=generator)
    fine = F.interpolate(coarse, (side, side), mode="bicubic", align_corners=False)
    return (0.15 + 0.7 * fine + 0.04 * torch.rand(count, 3, side, side, generator=generator)).clamp(0.1, 0.9)


def classes(strong: Strong, x: torch.Tensor, draws: torch.Generator, roi=None) -> tuple[torch.Tensor, torch.Tensor]:
    """A_0 to A_3 of each image x (B, 3, S, S): images (B, 4, 3, S, S) and lesion masks (B, 4, S, S)."""
    mixed = strong.classes(x, 3, draws, roi)
    return mixed.images.unflatten(0, (len(x), 4)), mixed.masks.unflatten(0, (len(x), 4))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)

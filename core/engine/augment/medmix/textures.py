"""What lesions are made of beyond the paper: drawn tissue, a made-up modality, light from one side."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.hashing import hashed_normal

OCTAVES = (3, 6, 12)  # cells across a patch, each octave half as strong as the one before


def drawn(seed: Tensor, contrast: Tensor, v: Tensor, u: Tensor, base: Tensor) -> Tensor:
    """Tissue (L, 3, H, W): the colour `base` (L, 3) of its surroundings, mottled by noise of three octaves.

    seed, contrast (L,); v, u (L, H, W): where the noise is read, in box coordinates.
    """
    mottle = torch.zeros_like(v)[:, None]
    grid = torch.stack([u, v], -1)
    for octave, cells in enumerate(OCTAVES):
        # knots by hashing: the same on every device
        at = torch.arange(cells, device=v.device).expand(len(seed), cells)
        knots = hashed_normal(seed, at + 1000 * (octave + 1), at, channels=1).clamp_(-2, 2)
        mottle += F.grid_sample(knots, grid, mode="bilinear", padding_mode="reflection", align_corners=True) / 2**octave
    return base[:, :, None, None] * (1 + contrast[:, None, None, None] * mottle)


def other_modality(patch: Tensor, tone: Tensor) -> Tensor:
    """The patch as another device might show it: channels reordered, half of the patches inverted. tone (L, 4)."""
    order = tone[:, :3].argsort(1)[:, :, None, None].expand_as(patch)
    patch = patch.gather(1, order)
    return torch.where((tone[:, 3] < 0.5)[:, None, None, None], 1 - patch, patch)


def shade(v: Tensor, u: Tensor, strength: Tensor, angle: Tensor) -> Tensor:
    """Light on a dome, a factor (L, 1, H, W): brighter towards `angle` (L,) and at the top, darker at the rim.

    v (L, H), u (L, W): box coordinates; strength (L,).
    """
    v, u = v[:, None, :, None], u[:, None, None, :]
    s, a = strength[:, None, None, None], angle[:, None, None, None]
    light = torch.cos(a) * u + torch.sin(a) * v
    return (1 + s * (light + 0.5 * (1 - 2 * (v * v + u * u)))).clamp_(min=0)

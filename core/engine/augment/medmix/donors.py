"""What a lesion is made of: a piece of a donor image read at warped places, a drawn texture, or a made-up modality."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.hashing import hashed_normal
from core.engine.augment.medmix import windows
from core.engine.augment.medmix.lesions import FOREIGN, Lesions

OCTAVES = (3, 6, 12)  # cells across a patch, each octave half as strong as the one before


def cut(x: Tensor, lesions: Lesions, v: Tensor, u: Tensor, pool: Tensor | None = None) -> Tensor:
    """The donors' patches (L, 3, H, W), read bilinearly at box coordinates v, u (L, H, W), never outside the box cut.

    x (B, 3, S, S): the batch. pool (M, 3, S, S): images of another modality, for the lesions of kind `foreign`.
    """
    side = x.shape[-1]
    y0, x0, h, w = (lesions.source[:, i] for i in range(4))
    crop = min(side, max(2, int(lesions.source[:, 2:].max())))
    top, left = windows.corner(y0, crop, side), windows.corner(x0, crop, side)
    patch = windows.gather(x, lesions.donor.clamp(0, len(x) - 1), top, left, crop)
    if pool is not None and bool((lesions.kind == FOREIGN).any()):
        rows = torch.nonzero(lesions.kind == FOREIGN)[:, 0]
        patch[rows] = windows.gather(pool, lesions.donor[rows], top[rows], left[rows], crop)
    grid = torch.stack([_reading(u, x0, w, left, crop), _reading(v, y0, h, top, crop)], -1)
    return F.grid_sample(patch, grid, mode="bilinear", padding_mode="border", align_corners=True)


def _reading(at: Tensor, start: Tensor, length: Tensor, origin: Tensor, crop: int) -> Tensor:
    """Box coordinates -> grid_sample's over a crop, kept within the box."""
    start, length, origin = (t[:, None, None].to(at.dtype) for t in (start, length, origin))
    pixel = (start + (at + 1) * 0.5 * length - 0.5).clamp(start, start + length - 1)
    return 2 * (pixel - origin) / (crop - 1) - 1


def texture(lesions: Lesions, v: Tensor, u: Tensor, base: Tensor) -> Tensor:
    """Drawn tissue (L, 3, H, W): the colour `base` (L, 3) of its surroundings, mottled by noise of three octaves."""
    mottle = torch.zeros_like(v)[:, None]
    grid = torch.stack([u, v], -1)
    for octave, cells in enumerate(OCTAVES):
        # knots by hashing: the same on every device
        at = torch.arange(cells, device=v.device).expand(len(lesions), cells)
        knots = hashed_normal(lesions.seed, at + 1000 * (octave + 1), at, channels=1).clamp_(-2, 2)
        mottle += F.grid_sample(knots, grid, mode="bilinear", padding_mode="reflection", align_corners=True) / 2**octave
    return base[:, :, None, None] * (1 + lesions.contrast[:, None, None, None] * mottle)


def other_modality(patch: Tensor, tone: Tensor) -> Tensor:
    """The patch as another device might show it: channels reordered, half of the patches inverted. tone (L, 4)."""
    order = tone[:, :3].argsort(1)[:, :, None, None].expand_as(patch)
    patch = patch.gather(1, order)
    return torch.where((tone[:, 3] < 0.5)[:, None, None, None], 1 - patch, patch)

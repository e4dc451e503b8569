"""The cells that lesions are learnt from: an encoder's maps joined on one grid, and what a mask says of each cell."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

INSIDE = 0.5  # a cell is lesion if the mask covers so much of it


def chosen_channels(channels: int, most: int, seed: int) -> Tensor | None:
    """Ascending places (most,) of channels drawn from all, or None where all are kept."""
    if channels <= most:
        return None
    return torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(channels)[:most]))


def joined(maps: dict[int, Tensor], strides: tuple[int, ...], grid: int, channels: Tensor | None) -> Tensor:
    """Maps (B, C, h, w) by stride -> cells float32 (B, h, w, D) on the grid of stride `grid`, one of `strides`.

    Finer maps are averaged over a cell, coarser ones interpolated.
    """
    shape = (maps[grid].shape[-2], maps[grid].shape[-1])
    parts = [
        F.adaptive_avg_pool2d(maps[s], shape)
        if s < grid
        else F.interpolate(maps[s], shape, mode="bilinear", align_corners=False)
        for s in strides
    ]
    cells = torch.cat(parts, 1).permute(0, 2, 3, 1)
    return (cells if channels is None else cells[..., channels.to(cells.device)]).float()


def covered(masks: np.ndarray, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Masks uint8 (N, S, S) -> lesion bool (N, h, w) and free bool (N, h, w), cells that the mask does not touch.

    A lesion that covers no cell by half is found where it covers most.
    """
    x = torch.from_numpy(np.array(masks) > 0).float()[:, None]
    part = F.adaptive_avg_pool2d(x, shape)[:, 0].numpy()
    most = part.max((1, 2), keepdims=True)
    return (part >= np.minimum(INSIDE, most)) & (part > 0), part == 0

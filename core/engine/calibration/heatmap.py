"""Heat maps between a detector's own grid and the image's pixels."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.rows import Rows

BLOCK = 256  # regions of interest that are brought to a map's grid at once: as floats they take four times the bytes


def blur(maps: Tensor, sigma: float) -> Tensor:
    """Blurs (N, h, w) by a Gaussian, sigma in cells of that grid; borders are reflected. 0 leaves maps as they are."""
    if sigma <= 0:
        return maps
    radius = max(int(4 * sigma + 0.5), 1)
    offsets = torch.arange(-radius, radius + 1, dtype=maps.dtype, device=maps.device)
    kernel = torch.exp(-0.5 * (offsets / sigma) ** 2)
    kernel = kernel / kernel.sum()
    x = maps[:, None]
    x = F.conv2d(_pad(x, radius, 3), kernel.view(1, 1, 1, -1))
    return F.conv2d(_pad(x, radius, 2), kernel.view(1, 1, -1, 1))[:, 0]


def _pad(x: Tensor, radius: int, axis: int) -> Tensor:
    """Reflected as often as needed (`F.pad` reflects once, so a grid smaller than the kernel would fail)."""
    n = x.shape[axis]
    index = torch.arange(-radius, n + radius, device=x.device).remainder(2 * n)  # ... 1 0 | 0 1 .. n-1 | n-1 ...
    return x.index_select(axis, torch.minimum(index, 2 * n - 1 - index))


def upsample(maps: np.ndarray, size: int | tuple[int, int], sigma_at_256: float = 0) -> np.ndarray:
    """Resizes (N, h, w) -> float32 (N, H, W), bilinear, then blurs by `sigma_at_256` pixels per 256 of the height.

    size: the side of a square, or (H, W). PaDiM's own figure is 4; ours blurs its maps already, hence 0.
    """
    height, width = (size, size) if isinstance(size, int) else size
    x = torch.from_numpy(np.ascontiguousarray(maps, dtype=np.float32))[:, None]
    x = F.interpolate(x, (height, width), mode="bilinear", align_corners=False)[:, 0]
    return blur(x, sigma_at_256 * height / 256).numpy()


def roi_at(roi: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Brings regions uint8 (N, S, S) to a map's grid, bool (N, h, w): a cell is inside if at least half of it is."""
    inside = np.empty((len(roi), *shape[:2]), bool)
    for start in range(0, len(roi), BLOCK):
        x = torch.from_numpy(np.array(roi[start : start + BLOCK])).float()[:, None]
        inside[start : start + BLOCK] = F.interpolate(x, tuple(shape[:2]), mode="area")[:, 0].numpy() >= 0.5
    return inside


def usually_inside(roi: Rows, side: int) -> np.ndarray:
    """Computes the share of images whose region of interest holds a place: uint8 (N, S, S) -> float32 (side, side)."""
    total = np.zeros(roi.shape[1:])
    for start in range(0, len(roi), BLOCK):
        total += np.asarray(roi[start : start + BLOCK]).sum(0)
    share = torch.from_numpy(total / len(roi)).float()[None, None]
    return np.asarray(F.interpolate(share, (side, side), mode="area")[0, 0].numpy())


def cells_inside(maps: np.ndarray, roi: np.ndarray | None) -> np.ndarray:
    """Returns the cells of maps (N, h, w) inside roi uint8 (N, S, S), side by side (n,), or all maps without a roi."""
    return maps if roi is None else maps[roi_at(roi, maps.shape[1:])]


def counted(maps: np.ndarray, roi: np.ndarray | None) -> np.ndarray:
    """Finds which cells of maps (N, h, w) count: those inside roi uint8 (N, S, S), or all. bool (N, h, w).

    An empty region says nothing, so all of such a map counts.
    """
    if roi is None:
        return np.ones(maps.shape, bool)
    inside = roi_at(roi, maps.shape[1:])
    return np.asarray(inside | ~inside.any((1, 2), keepdims=True))


def masked_maps(maps: np.ndarray, roi: np.ndarray | None) -> np.ndarray:
    """Gives maps their own minimum outside the region of interest, so that no maximum is found there."""
    if roi is None:
        return maps
    inside = roi_at(roi, maps.shape[1:])
    floor = maps.min((1, 2), keepdims=True)
    return np.where(inside, maps, floor).astype(np.float32)

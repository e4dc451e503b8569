"""Functions for heat maps `(N, h, w)` on a detector's grid and regions of interest `(N, S, S)` in image pixels."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.rows import Rows

BLOCK = 256  # number of regions of interest that are resized at once, because floats need four times the memory


def blur(maps: Tensor, sigma: float) -> Tensor:
    """Blurs maps `(N, h, w)` with a Gaussian of standard deviation `sigma`, in cells; borders are reflected."""
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
    """Pads by repeated reflection; `F.pad` reflects only once and fails if the grid is smaller than the kernel."""
    n = x.shape[axis]
    index = torch.arange(-radius, n + radius, device=x.device).remainder(2 * n)  # ... 1 0 | 0 1 .. n-1 | n-1 ...
    return x.index_select(axis, torch.minimum(index, 2 * n - 1 - index))


def upsample(maps: np.ndarray, size: int | tuple[int, int]) -> np.ndarray:
    """Resizes maps `(N, h, w)` bilinearly to float32 `(N, H, W)`; `size` is (H, W) or the side length of a square."""
    height, width = (size, size) if isinstance(size, int) else size
    x = torch.from_numpy(np.ascontiguousarray(maps, dtype=np.float32))[:, None]
    return np.asarray(F.interpolate(x, (height, width), mode="bilinear", align_corners=False)[:, 0].numpy())


def covered(roi: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Computes which fraction of each cell of an h x w grid is inside regions `(N, S, S)`: float32 `(N, h, w)`."""
    inside, every = _counts(roi, shape)
    return inside / every


def _counts(roi: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Counts the pixels of each cell inside the regions, `(N, h, w)`, and all pixels of each cell, `(h, w)`.

    The cells are those of `F.interpolate(mode="area")`, which ONNX does not support for all sizes.
    """
    rows, columns = (_windows(n, cells, roi.device) for n, cells in zip(roi.shape[1:], shape, strict=True))
    blocks = [roi] if torch.compiler.is_exporting() else roi.split(BLOCK)
    inside = torch.cat([rows @ block.float() @ columns.T for block in blocks])
    return inside, rows.sum(1)[:, None] * columns.sum(1)


def _windows(size: int, cells: int, device: torch.device) -> Tensor:
    """Returns a matrix `(cells, size)` of 0 and 1 that selects the pixels averaged for each cell."""
    pixels, numbers = np.arange(size), np.arange(cells + 1)[:, None] * size
    windows = (pixels >= numbers[:-1] // cells) & (pixels < -(-numbers[1:] // cells))
    return torch.from_numpy(windows.astype(np.float32)).to(device)


def inside_of(roi: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Resizes regions `(N, S, S)` to bool `(N, h, w)`; a cell is inside if at least half of its pixels are."""
    inside, every = _counts(roi, shape)
    return 2 * inside >= every


def counting(maps: Tensor, roi: Tensor | None) -> Tensor:
    """Returns which cells of maps `(N, h, w)` are evaluated: cells inside `roi` `(N, S, S)`, by default all.

    If the region of an image is empty, all cells of the image are evaluated.
    """
    if roi is None:
        return torch.ones_like(maps, dtype=torch.bool)
    inside = inside_of(roi, maps.shape[1:])
    return inside | ~inside.flatten(1).any(1)[:, None, None]


def mean_inside(maps: Tensor, roi: Tensor | None) -> Tensor:
    """Computes the mean `(N,)` of each map `(N, h, w)` over the cells that `counting` returns."""
    inside = counting(maps, roi)
    return (maps * inside).sum((1, 2)) / inside.sum((1, 2))


def masked_maps(maps: Tensor, roi: Tensor | None) -> Tensor:
    """Sets maps `(N, h, w)` to their minimum outside `roi` `(N, S, S)`, so that their maximum is inside."""
    return maps if roi is None else torch.where(inside_of(roi, maps.shape[1:]), maps, maps.amin((1, 2), keepdim=True))


def roi_at(roi: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Resizes regions uint8 `(N, S, S)` to bool `(N, h, w)` like `inside_of`, block by block; `shape` is (h, w)."""
    inside = np.empty((len(roi), *shape[:2]), bool)
    for start in range(0, len(roi), BLOCK):
        block = torch.from_numpy(np.array(roi[start : start + BLOCK]))
        inside[start : start + BLOCK] = inside_of(block, tuple(shape[:2])).numpy()
    return inside


def usually_inside(roi: Rows, side: int) -> np.ndarray:
    """Computes for each position which fraction of regions uint8 `(N, S, S)` contain it: float32 `(side, side)`."""
    total = np.zeros(roi.shape[1:])
    for start in range(0, len(roi), BLOCK):
        total += np.asarray(roi[start : start + BLOCK]).sum(0)
    share = torch.from_numpy(total / len(roi)).float()[None, None]
    return np.asarray(F.interpolate(share, (side, side), mode="area")[0, 0].numpy())


def cells_inside(maps: np.ndarray, roi: np.ndarray | None) -> np.ndarray:
    """Returns the values of maps `(N, h, w)` inside regions uint8 `(N, S, S)`; if `roi` is None, returns the maps."""
    return maps if roi is None else maps[roi_at(roi, maps.shape[1:])]


def counted(maps: np.ndarray, roi: np.ndarray | None) -> np.ndarray:
    """Returns which cells of NumPy maps `(N, h, w)` are evaluated, as `counting` does for tensors."""
    if roi is None:
        return np.ones(maps.shape, bool)
    inside = roi_at(roi, maps.shape[1:])
    return np.asarray(inside | ~inside.any((1, 2), keepdims=True))

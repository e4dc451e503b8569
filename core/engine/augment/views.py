"""The pixels of a weak view, given what was drawn: one resampling, one affine map of the colours, one blur.

Colour is left unclamped until the end, so it commutes with the blur and needs a single pass (see `colour.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.colour import LUMA, apply_colour, colour_map

_CHUNK = {"cpu": 8}  # images at once: on a CPU what fits its cache
REACH = 3  # standard deviations; where the blur's kernel ends


@dataclass
class WeakDraws:
    """What was drawn for B images, on the CPU."""

    box: Tensor  # (B, 4) the crop, y0, x0, h, w in pixels, not rounded
    flip: Tensor  # (B,) bool
    factors: Tensor  # (B, 4) brightness, contrast, saturation, hue
    order: Tensor  # (B, 4) of the four
    grey: Tensor  # (B,) bool
    sigma: Tensor  # (B,) pixels; 0 for no blur


def apply_weak(x: Tensor, drawn: WeakDraws) -> Tensor:
    """x (B, 3, S, S) in [0, 1] -> its views, the same shape."""
    side, chunk = x.shape[-1], _CHUNK.get(x.device.type, 4096)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    rows, cols = _reading(drawn, side)
    grey = torch.where(drawn.grey[:, None, None], torch.tensor(LUMA).expand(3, 3), torch.eye(3))
    factors, order, grey, rows, cols = (t.to(x.device) for t in (drawn.factors, drawn.order, grey, rows, cols))
    for at in range(0, len(x), chunk):
        part = slice(at, at + chunk)
        view = resample(x[part], rows[part], cols[part])
        matrix, offset = colour_map(factors[part], order[part], view.mean((2, 3)))
        view = apply_colour(view, grey[part] @ matrix, (grey[part] @ offset[:, :, None])[:, :, 0])
        blurred = torch.nonzero(drawn.sigma[part] > 0)[:, 0]
        if len(blurred):
            at_device = blurred.to(x.device)
            view[at_device] = blur(view[at_device], drawn.sigma[part][blurred])
        torch.clamp(view, 0, 1, out=out[part])
    return out


def _reading(drawn: WeakDraws, side: int) -> tuple[Tensor, Tensor]:
    """Rows and columns (B, S) at which the S x S view reads, in pixels, within the image."""
    at = (torch.arange(side) + 0.5) / side
    rows = drawn.box[:, 0, None] + at * drawn.box[:, 2, None] - 0.5
    cols = drawn.box[:, 1, None] + at * drawn.box[:, 3, None] - 0.5
    cols = torch.where(drawn.flip[:, None], cols.flip(1), cols)
    return rows.clamp_(0, side - 1), cols.clamp_(0, side - 1)


def resample(x: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """x (B, C, S, S) read bilinearly at rows (B, H) x cols (B, W), in pixels -> (B, C, H, W).

    A crop is at most as large as its view, so this never shrinks and needs no antialiasing.
    """
    side = x.shape[-1]
    b, h, w = len(x), rows.shape[1], cols.shape[1]
    grid = torch.empty(b, h, w, 2, dtype=x.dtype, device=x.device)
    grid[..., 0] = (cols * (2 / (side - 1)) - 1)[:, None, :]
    grid[..., 1] = (rows * (2 / (side - 1)) - 1)[:, :, None]
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=True)


def blur(x: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian blur of each image by its own sigma. x (B, C, S, S); sigma (B,) > 0 in pixels, on the CPU."""
    b, c, height, width = x.shape
    reach = min(max(1, math.ceil(REACH * float(sigma.max()))), height - 1)
    at = torch.arange(-reach, reach + 1, dtype=x.dtype)
    kernel = torch.exp(-0.5 * (at / sigma[:, None].clamp(min=1e-3)).square())
    kernel = (kernel / kernel.sum(1, keepdim=True)).to(x.device).repeat_interleave(c, 0)
    y = x.reshape(1, b * c, height, width)
    y = F.conv2d(F.pad(y, (reach, reach, 0, 0), mode="reflect"), kernel[:, None, None, :], groups=b * c)
    y = F.conv2d(F.pad(y, (0, 0, reach, reach), mode="reflect"), kernel[:, None, :, None], groups=b * c)
    return y.view_as(x)


def warp_masks(masks: Tensor, drawn: WeakDraws) -> Tensor:
    """masks (B, S, S) of any type, read at the nearest pixel of the same crop and flip."""
    rows, cols = (t.round().long().to(masks.device) for t in _reading(drawn, masks.shape[-1]))
    return masks[torch.arange(len(masks), device=masks.device)[:, None, None], rows[:, :, None], cols[:, None, :]]

"""Small square windows out of a batch of images and back into it, without a copy of the images in between."""

from __future__ import annotations

import torch
from torch import Tensor


def corner(start: Tensor, window: int, side: int) -> Tensor:
    """Where a window of `window` pixels that holds the box starting at `start` begins, so as to lie in the image."""
    return torch.minimum(start, torch.full_like(start, side - window))


def _view(x: Tensor, window: int) -> Tensor:
    return x.unfold(-2, window, 1).unfold(-2, window, 1)


def gather(x: Tensor, image: Tensor, y: Tensor, x0: Tensor, window: int) -> Tensor:
    """x (B, C, S, S) -> the windows (L, C, window, window) at rows y (L,), columns x0 (L,) of images image (L,)."""
    return _view(x, window)[image, :, y, x0]


def scatter(x: Tensor, image: Tensor, y: Tensor, x0: Tensor, values: Tensor) -> None:
    """Write windows (L, C, window, window) into x in place; no two of them in one image."""
    _view(x, values.shape[-1])[image, :, y, x0] = values

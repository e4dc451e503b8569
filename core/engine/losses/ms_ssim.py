"""Multi-scale structural similarity (Wang, Simoncelli, Bovik 2003), as a score and as a map.

At each level the images are compared through a Gaussian window, then halved. Contrast and structure count at every
level, luminance at the last one only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
SIGMA = 1.5  # of the Gaussian window, in pixels
FLOOR = 1e-6  # least value of a level, as powers below 1 have an infinite gradient at 0


# A function of two images that returns luminance times contrast and structure, and contrast and structure only.
Comparison = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def fit_levels(size: int, window: int, weights: tuple[float, ...]) -> tuple[float, ...]:
    """Returns the weights of the levels that fit an image of `size` pixels, rescaled to the sum of all `weights`.

    The usual five levels with a window of 11 need 176 pixels; at 64 pixels three levels fit.
    Raises ValueError if no level fits.
    """
    room = 0
    while room < len(weights) and size >> room >= window:
        room += 1
    if room == 0:
        raise ValueError(f"a window of {window} does not fit an image of {size} pixels")
    scale = sum(weights) / sum(weights[:room])
    return tuple(w * scale for w in weights[:room])


def _window(window: int, like: Tensor) -> Tensor:
    offsets = torch.arange(window, dtype=like.dtype, device=like.device) - window // 2
    kernel = torch.exp(-(offsets**2) / (2 * SIGMA**2))
    return kernel / kernel.sum()


def _smooth(x: Tensor, kernel: Tensor) -> Tensor:
    """Smooths x (B, C, h, w) at the positions at which the whole window fits."""
    c, n = x.shape[1], len(kernel)
    x = F.conv2d(x, kernel.view(1, 1, n, 1).expand(c, 1, n, 1), groups=c)
    return F.conv2d(x, kernel.view(1, 1, 1, n).expand(c, 1, 1, n), groups=c)


def _compare(x: Tensor, y: Tensor, kernel: Tensor, data_range: float) -> tuple[Tensor, Tensor]:
    """Computes luminance times contrast-structure, and contrast-structure only, each (B, C, h', w')."""
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    b, c = x.shape[:2]
    together = _smooth(torch.cat([x, y, x * x, y * y, x * y], 1), kernel)
    mx, my, xx, yy, xy = together.view(b, 5, c, *together.shape[2:]).unbind(1)
    cs = (2 * (xy - mx * my) + c2) / (xx - mx * mx + yy - my * my + c2)
    return (2 * mx * my + c1) / (mx * mx + my * my + c1) * cs, cs


def _levels(x: Tensor, y: Tensor, weights: tuple[float, ...], compare: Comparison) -> Iterator[tuple[float, Tensor]]:
    """Yields (weight, map) of each level: contrast and structure, at the last level times luminance, (B, C, h', w').

    Halving an odd side drops the last row or column.
    """
    for level, weight in enumerate(weights):
        ssim, cs = compare(x, y)
        last = level == len(weights) - 1
        yield weight, ssim if last else cs
        if not last:
            x, y = F.avg_pool2d(x, 2), F.avg_pool2d(y, 2)


def ms_ssim(
    x: Tensor,
    y: Tensor,
    *,
    data_range: float = 1.0,
    window: int = 11,
    weights: tuple[float, ...] = WEIGHTS,
) -> Tensor:
    """Computes the multi-scale structural similarity of images x and y, float (B, C, S, S) -> (B,), at most 1.

    The result is the mean over channels of the product over levels. All levels must fit the images: see `fit_levels`.
    """
    kernel = _window(window, x)
    product = torch.ones((), device=x.device)
    for weight, level in _levels(x, y, weights, lambda x, y: _compare(x, y, kernel, data_range)):
        product = product * level.mean((2, 3)).clamp(min=FLOOR) ** weight  # (B, C)
    return product.mean(1)


def dissimilarity_map(
    x: Tensor,
    y: Tensor,
    *,
    data_range: float = 1.0,
    window: int = 11,
    weights: tuple[float, ...] = WEIGHTS,
) -> Tensor:
    """Computes a map (B, S, S) of the structural differences between images x and y, each (B, C, S, S).

    The 1 - SSIM map of each level is resized to S x S, multiplied by the level's weight and added. Borders are mirrored
    so that every pixel has a value. Values are 0 where both images agree, and at most twice the sum of the weights.
    """
    kernel, size, half = _window(window, x), x.shape[2:], window // 2
    total = x.new_zeros(x.shape[0], *size)

    def mirrored(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        border = (half, half, half, half)
        return _compare(F.pad(x, border, "reflect"), F.pad(y, border, "reflect"), kernel, data_range)

    for weight, level in _levels(x, y, weights, mirrored):
        residual = (1 - level.mean(1, keepdim=True)).clamp(0, 2)
        total += weight * F.interpolate(residual, size, mode="bilinear", align_corners=False)[:, 0]
    return total

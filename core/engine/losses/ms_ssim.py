"""Multi-scale structural similarity (MS-SSIM; Wang, Simoncelli, Bovik 2003) of two images, as a number and as a map.

At each level, the images are compared in Gaussian windows, then halved in size for the next level. Contrast and
structure are compared at every level, and luminance only at the last, coarsest level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
SIGMA = 1.5  # standard deviation of the Gaussian window, in pixels
FLOOR = 1e-6  # minimum similarity of a level, because powers below 1 have an infinite gradient at 0


# Function of two images that returns luminance times contrast-structure, and contrast-structure alone.
Comparison = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def fit_levels(size: int, window: int, weights: tuple[float, ...]) -> tuple[float, ...]:
    """Returns the weights of the levels at which the window fits in the image, rescaled to the sum of all `weights`.

    `size` and `window` are side lengths in pixels. With a window of 11 pixels, five levels need images of at least 176
    pixels, and three levels fit images of 64 pixels. Raises ValueError if the window is larger than the image.
    """
    count = 0
    while count < len(weights) and size >> count >= window:
        count += 1
    if count == 0:
        raise ValueError(f"a window of {window} pixels does not fit an image of {size} pixels")
    scale = sum(weights) / sum(weights[:count])
    return tuple(w * scale for w in weights[:count])


def _window(window: int, like: Tensor) -> Tensor:
    offsets = torch.arange(window, dtype=like.dtype, device=like.device) - window // 2
    kernel = torch.exp(-(offsets**2) / (2 * SIGMA**2))
    return kernel / kernel.sum()


def _smooth(x: Tensor, kernel: Tensor) -> Tensor:
    c, n = x.shape[1], len(kernel)
    x = F.conv2d(x, kernel.view(1, 1, n, 1).expand(c, 1, n, 1), groups=c)
    return F.conv2d(x, kernel.view(1, 1, 1, n).expand(c, 1, 1, n), groups=c)


def _compare(x: Tensor, y: Tensor, kernel: Tensor, data_range: float) -> tuple[Tensor, Tensor]:
    """Returns luminance times contrast-structure, and contrast-structure alone, each `(B, C, h', w')`."""
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    b, c = x.shape[:2]
    smoothed = _smooth(torch.cat([x, y, x * x, y * y, x * y], 1), kernel)
    mx, my, xx, yy, xy = smoothed.view(b, 5, c, *smoothed.shape[2:]).unbind(1)
    cs = (2 * (xy - mx * my) + c2) / (xx - mx * mx + yy - my * my + c2)
    return (2 * mx * my + c1) / (mx * mx + my * my + c1) * cs, cs


def _levels(x: Tensor, y: Tensor, weights: tuple[float, ...], compare: Comparison) -> Iterator[tuple[float, Tensor]]:
    """Yields the weight and the similarity map, `(B, C, h', w')`, of each level. Halving drops the last row of an odd
    side.
    """
    for level, weight in enumerate(weights):
        ssim, cs = compare(x, y)
        last = level == len(weights) - 1
        yield weight, ssim if last else cs
        if not last:
            x, y = F.avg_pool2d(x, 2), F.avg_pool2d(y, 2)


def ms_ssim(
    x: Tensor, y: Tensor, *, data_range: float = 1.0, window: int = 11, weights: tuple[float, ...] = WEIGHTS
) -> Tensor:
    """Computes the multi-scale structural similarity of pairs of images, `(B,)`, at most 1.

    Each level's similarity is raised to the power of its weight. The product over levels is averaged over channels.

    Args:
        x: Images, `float (B, C, S, S)`.
        y: Images with which x is compared, of the same shape.
        data_range: Range of the pixel values, 1 for images in [0, 1].
        window: Side length of the Gaussian window in pixels, an odd number.
        weights: Exponent of the similarity at each level. All levels must fit the images; see `fit_levels`.
    """
    kernel = _window(window, x)
    product = torch.ones((), device=x.device)
    for weight, level in _levels(x, y, weights, lambda x, y: _compare(x, y, kernel, data_range)):
        product = product * level.mean((2, 3)).clamp(min=FLOOR) ** weight  # (B, C)
    return product.mean(1)


def dissimilarity_map(
    x: Tensor, y: Tensor, *, data_range: float = 1.0, window: int = 11, weights: tuple[float, ...] = WEIGHTS
) -> Tensor:
    """Computes a map of the structural differences between pairs of images, `(B, S, S)`.

    The dissimilarity of each level, 1 - similarity, is resized to S x S pixels and multiplied by the level's weight.
    The map is the sum over levels. Borders are mirrored, so that every pixel has a value. Values are 0 where both
    images agree, and at most twice the sum of the weights. The arguments are the same as for `ms_ssim`.
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

"""SimCLR's weak augmentation: random crop, resize, flip, colour jitter, greyscale and blur of each image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.colour import PLAIN, SATURATION, apply_colour, colour_map, grey_images, jitter_factors
from core.engine.augment.config import WeakConfig
from core.engine.tensors import to_device


class WeakViews:
    """Makes weak views of images according to a `WeakConfig`.

    Use `views = WeakViews(config)`, then `views(x, generator)` or `views.with_masks(x, generator, masks)`.
    """

    def __init__(self, config: WeakConfig | None = None) -> None:
        self.config = WeakConfig() if config is None else config

    def draw(self, count: int, side: int, generator: torch.Generator, times: int = 1) -> WeakDraws:
        """Draws parameters for `times` views of each of `count` images (side length `side`), first views first."""
        u = np.concatenate([self._numbers(count, generator) for _ in range(times)])
        c = self.config
        area = c.crop[0] + u[:, 0] * (c.crop[1] - c.crop[0])
        low, high = math.log(c.ratio[0]), math.log(c.ratio[1])
        ratio = np.exp(low + u[:, 1] * (high - low))
        h, w = (np.sqrt(product).clip(max=1) * side for product in (area / ratio, area * ratio))
        sigma = (c.sigma[0] + u[:, 14] * (c.sigma[1] - c.sigma[0])) * side / 256
        factors = np.where(u[:, 5, None] < c.p_jitter, jitter_factors(u[:, 6:10], c.jitter), PLAIN)
        factors[:, SATURATION] *= u[:, 12] >= c.p_grey
        box = np.stack([u[:, 2] * (side - h), u[:, 3] * (side - w), h, w], 1)
        values = box, u[:, 4] < c.flip, factors, sigma * (u[:, 13] < c.p_blur)
        return WeakDraws(*(torch.from_numpy(numbers) for numbers in values))

    @staticmethod
    def _numbers(count: int, generator: torch.Generator) -> np.ndarray:
        numbers: np.ndarray = torch.rand(count, 16, generator=generator).numpy()
        torch.rand(count, 4, generator=generator)  # not used, so that later draws from a seed do not change
        return numbers

    def __call__(self, x: Tensor, generator: torch.Generator, lesions: Tensor | None = None, times: int = 1) -> Tensor:
        """Makes `times` weak views of each image. Views of a grey image (three equal channels) are grey.

        Args:
            x: Images `(B, 3, S, S)` in [0, 1].
            lesions: Boxes `(B, k, 4)` as in `Mixed` that must stay in the crops, see `crops_with`, or None.

        Returns:
            The views `(times * B, 3, S, S)`, first views first.
        """
        crops = self.draw(len(x), x.shape[-1], generator, times)
        if lesions is not None:
            crops.box = crops_with(to_device(crops.box, x.device), lesions.repeat(times, 1, 1), x.shape[-1])
        return apply_weak(x, crops)

    def with_masks(self, x: Tensor, generator: torch.Generator, masks: Tensor) -> tuple[Tensor, Tensor]:
        """Makes a weak view of each image x `(B, 3, S, S)`; crops and flips the masks `(B, S, S)` in the same way."""
        crops = self.draw(len(x), x.shape[-1], generator)
        return apply_weak(x, crops), warp_masks(masks, crops)


PER_THREAD = 256**2  # pixels processed at once by each thread of a CPU
REACH = 3  # radius of the blur's kernel in standard deviations


@dataclass
class WeakDraws:
    """Random parameters of the weak views of B images, on the CPU."""

    box: Tensor  # (B, 4) crop (y0, x0, h, w) in pixels, not rounded; on the images' device if lesions are kept
    flip: Tensor  # (B,) bool
    factors: Tensor  # (B, 4) brightness, contrast, saturation, hue; a saturation of 0 gives grey
    sigma: Tensor  # (B,) pixels; 0 for no blur


def crops_with(box: Tensor, lesions: Tensor, side: int) -> Tensor:
    """Moves crops and, if necessary, enlarges them to contain the central half (per side) of each lesion's box.

    Crops that already contain it are not changed. At least 1/4 of the area of a lesion's box is then visible, or 9/16
    if the crop is as large as the box.

    Args:
        box: Crops (y0, x0, h, w) in pixels, `(B, 4)`.
        lesions: Boxes of lesions (y0, x0, y1, x1), `(B, k, 4)`, with zero area in unused slots.
    """
    low, high = lesions[..., :2].to(box.dtype), lesions[..., 2:].to(box.dtype)
    has_area = (high > low).all(-1, keepdim=True)
    quarter = (high - low) / 4
    first = torch.where(has_area, low + quarter, side).amin(1)  # (B, 2), the part that all lesions together need
    last = torch.where(has_area, high - quarter, 0).amax(1)
    start, size = box[:, :2], torch.maximum(box[:, 2:], last - first)
    moved = torch.minimum(torch.maximum(start, last - size), first).clamp(min=0)
    moved = torch.where(has_area.any(1), torch.minimum(moved, side - size), start)
    return torch.cat([moved, size], 1)


def apply_weak(x: Tensor, drawn: WeakDraws) -> Tensor:
    """Computes one weak view for each draw; draw i uses the image i mod B of x `(B, 3, S, S)` in [0, 1].

    Colours are clamped only at the end, so that the colour jitter commutes with the blur and takes a single pass.
    """
    side, count = x.shape[-1], len(drawn.sigma)
    chunk = count
    if x.device.type == "cpu":  # as much as stays in each core's cache
        chunk = max(1, torch.get_num_threads() * PER_THREAD // side**2)
    out = torch.empty(count, *x.shape[1:], dtype=x.dtype, device=x.device)
    # Sorted by the strength of the blur, because the widest kernel in a chunk determines the time for the chunk.
    order = drawn.sigma.argsort()
    kernel, reach = gaussian(drawn.sigma[order], side)
    widest = [int(of_chunk.max()) for of_chunk in torch.split(reach, chunk)]
    factors, kernel, order = (to_device(t, x.device) for t in (drawn.factors[order], kernel, order))
    rows, cols = (to_device(t, x.device).index_select(0, order) for t in _reading(drawn, side))
    image = order % len(x)
    matrix, share = colour_map(factors, grey_images(x)[image])
    for start, most in zip(range(0, count, chunk), widest, strict=True):
        rows_of_chunk = slice(start, start + chunk)
        view = resample(x.index_select(0, image[rows_of_chunk]), rows[rows_of_chunk], cols[rows_of_chunk])
        view = apply_colour(view, matrix[rows_of_chunk], share[rows_of_chunk], view.mean((2, 3)))
        _put(out, order[rows_of_chunk], blur(view, kernel[rows_of_chunk], most).clamp_(0, 1))
    return out


def _put(out: Tensor, rows: Tensor, views: Tensor) -> None:
    if out.device.type == "cpu":  # a loop is several times as fast as `index_copy_` on a CPU
        for row, view in zip(rows.tolist(), views, strict=True):
            out[row] = view
    else:
        out.index_copy_(0, rows, views)


def _reading(drawn: WeakDraws, side: int) -> tuple[Tensor, Tensor]:
    """Returns the rows and columns `(B, S)`, in pixels of the image, at which the view is read."""
    at = (torch.arange(side, device=drawn.box.device) + 0.5) / side
    rows = drawn.box[:, 0, None] + at * drawn.box[:, 2, None] - 0.5
    cols = drawn.box[:, 1, None] + at * drawn.box[:, 3, None] - 0.5
    cols = torch.where(to_device(drawn.flip, cols.device)[:, None], cols.flip(1), cols)
    return rows.clamp_(0, side - 1), cols.clamp_(0, side - 1)


def resample(x: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """Samples x `(B, C, S, S)` bilinearly at pixel positions `rows` `(B, H)`, `cols` `(B, W)`: `(B, C, H, W)`.

    A crop is never larger than its view, so images are not shrunk and need no antialiasing.
    """
    side = x.shape[-1]
    b, h, w = len(x), rows.shape[1], cols.shape[1]
    grid = torch.empty(b, h, w, 2, dtype=x.dtype, device=x.device)
    grid[..., 0] = (cols * (2 / (side - 1)) - 1)[:, None, :]
    grid[..., 1] = (rows * (2 / (side - 1)) - 1)[:, :, None]
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=True)


def gaussian(sigma: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """Computes Gaussian half kernels `(B, R + 1)`, from the centre outwards, and their radii `(B,)`.

    The standard deviations `sigma` `(B,)` are in pixels; 0 gives no blur. `side` limits the radii.
    """
    reach = (REACH * sigma).ceil().clamp(max=side - 1)
    at = torch.arange(int(reach.max()) + 1 if len(reach) else 1, dtype=sigma.dtype)
    kernel = torch.exp(-0.5 * (at / sigma[:, None].clamp(min=1e-3)).square()) * (at <= reach[:, None])
    return kernel / (2 * kernel.sum(1, keepdim=True) - kernel[:, :1]), reach


def blur(x: Tensor, kernel: Tensor, reach: int) -> Tensor:
    """Blurs each image with its own symmetric kernel. Images are mirrored at the border.

    Weighted shifted images are added, which is faster than a grouped convolution if the images fit into the cache.

    Args:
        x: Images `(B, C, S, S)`.
        kernel: Half kernels `(B, R + 1)`, see `gaussian`.
        reach: Largest radius, at most R.
    """
    kernel = kernel[:, :, None, None, None]
    for axis in (2, 3) if reach else ():
        padding = (0, 0, reach, reach) if axis == 2 else (reach, reach, 0, 0)
        wide, length = F.pad(x, padding, mode="reflect"), x.shape[axis]
        x = wide.narrow(axis, reach, length) * kernel[:, 0]
        both = torch.empty_like(x)
        for j in range(1, reach + 1):
            torch.add(wide.narrow(axis, reach - j, length), wide.narrow(axis, reach + j, length), out=both)
            x.addcmul_(both, kernel[:, j])
    return x


def warp_masks(masks: Tensor, drawn: WeakDraws) -> Tensor:
    """Applies the crop and flip of a weak view to masks `(B, S, S)` of any type, with nearest-pixel sampling."""
    rows, cols = (to_device(t.round().long(), masks.device) for t in _reading(drawn, masks.shape[-1]))
    return masks[torch.arange(len(masks), device=masks.device)[:, None, None], rows[:, :, None], cols[:, None, :]]

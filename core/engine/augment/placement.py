"""Positions of lesions: random boxes inside the region of interest, without overlap if requested.

Several candidates are drawn for each lesion, later ones smaller, and the best one is chosen. All images are processed
together, on the CPU.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

CANDIDATES = 24  # number of candidates for each lesion
LEAST = 5  # smallest side of a box in pixels; in smaller boxes a soft outline falls apart
GAP = 2  # pixels between lesions that must not touch
GRID = 64  # largest resolution at which the region of interest is evaluated
SHRINK = (1.0, 0.7, 0.5, 0.35, 0.25, 0.1)  # factors of the size of an image's lesions, tried until the lesions fit
SMALLER = torch.linspace(1.5, 0.25, CANDIDATES).clamp_(max=1).numpy()  # factors of a lesion's size, by candidate
ENOUGH = 0.8  # a box is placed again if its fraction inside the region is below this factor times `inside`


class RoiSampler:
    """Draws points in the regions of interest of B images and measures how much of a box lies inside a region.

    Args:
        roi: Regions `(B, S, S)`, 1 inside; an empty region is treated as the whole image. None if no region is known,
            in which case the methods must not be called.
        side: Side length S of the images in pixels.
    """

    def __init__(self, roi: Tensor | None, side: int) -> None:
        self.side = side
        self.cells = min(side, GRID)
        self.known = roi is not None
        if roi is None:
            return
        cover = _shrunk(roi, self.cells).cpu().double().numpy()  # (B, cells, cells)
        cover = np.where(cover.sum((1, 2), keepdims=True) > 0, cover, 1.0)
        self.sums = np.pad(cover.cumsum(1).cumsum(2), ((0, 0), (1, 0), (1, 0)))  # integral image
        full = (cover > 0.999).reshape(len(cover), -1).astype(float)
        mass = np.where(full.sum(1, keepdims=True) > 0, full, cover.reshape(full.shape)).cumsum(1)
        # The distribution functions of all images end to end, one sorted line: image i has the values i to i + 1.
        self.line = np.r_[0.0, (mass / mass[:, -1:] + np.arange(len(mass))[:, None]).ravel()]

    def centres(self, image: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Converts uniform random numbers u `(M, ..., 2)` to points `(M, ..., 2)`, in pixels, in regions of interest.

        Points are distributed uniformly over the region of the image with index `image` `(M,)`.
        """
        first = image.reshape(-1, *[1] * (u.ndim - 2))
        target = u[..., 0].astype(float) + first
        spot = np.searchsorted(self.line[1:], target, side="right")
        cell = (spot - first * self.cells**2).clip(0, self.cells**2 - 1)
        # The position of the first draw within its cell serves as the column in the cell.
        spot = cell + first * self.cells**2
        before, after = self.line[spot], self.line[spot + 1]
        offset = ((target - before) / (after - before).clip(1e-12)).clip(0, 1)
        position = np.stack([cell // self.cells + u[..., 1], cell % self.cells + offset], -1)
        return np.asarray(position * (self.side / self.cells))

    def part_inside(self, image: np.ndarray, box: np.ndarray) -> np.ndarray:
        """Computes the fraction `(M, ...)` of each box that lies inside the region of interest of its image.

        Boxes (y0, x0, h, w) are `(M, ..., 4)` in pixels, and `image` `(M,)` holds the index of each box's image.
        """
        scale = self.cells / self.side
        y0, x0 = np.moveaxis(np.floor(box[..., :2] * scale).astype(int), -1, 0)
        y1, x1 = np.moveaxis(np.ceil((box[..., :2] + box[..., 2:]) * scale).astype(int).clip(max=self.cells), -1, 0)
        i = image.reshape(-1, *[1] * (box.ndim - 2))
        total = self.sums[i, y1, x1] - self.sums[i, y0, x1] - self.sums[i, y1, x0] + self.sums[i, y0, x0]
        return np.asarray(total / ((y1 - y0) * (x1 - x0)).clip(1))


def _shrunk(roi: Tensor, cells: int) -> Tensor:
    """Shrinks regions `(B, S, S)` to the mean of each cell, `(B, cells, cells)`."""
    if roi.shape[-1] == cells:
        return roi.float()
    return F.interpolate(roi.float()[:, None], (cells, cells), mode="area")[:, 0]


def sides(
    u: np.ndarray, size: tuple[float, float], aspect: float, side: int, even_ratio: bool = False, least: int = LEAST
) -> np.ndarray:
    """Converts uniform random numbers u `(..., 2)` in [0, 1) to heights and widths of boxes, `(..., 2)` in pixels.

    Args:
        size: Range of the geometric mean of height and width, relative to the image's side length `side`.
        aspect: Largest ratio of the longer to the shorter side.
        even_ratio: Whether sizes are log-uniform, so that 2 to 4 % are as frequent as 20 to 40 %.
        least: Smallest height or width in pixels.
    """
    low, high = size
    length = (low * (high / low) ** u[..., 0] if even_ratio else low + u[..., 0] * (high - low)) * side
    ratio = aspect ** (u[..., 1] - 0.5)
    return np.stack([length * ratio, length / ratio], -1).round().clip(min(least, side), side)


def _candidates(
    image: np.ndarray, u: np.ndarray, lengths: np.ndarray, sampler: RoiSampler, inside: float, shrink: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Returns C candidates for each box, `(M, ..., C, 4)`, and their scores, `(M, ..., C)`.

    A score is the fraction inside the region divided by `inside`, at most 1 (0 without a region), minus a small penalty
    for later candidates. If `shrink` is set, later candidates are smaller, down to a quarter.
    """
    tries = u.shape[-2]
    factor = SMALLER[:tries] if shrink else np.ones(tries, np.float32)
    hw = (lengths[..., None, :] * factor[:, None]).round().clip(min(LEAST, sampler.side))
    hw = np.minimum(hw, lengths[..., None, :])
    free = sampler.side - hw
    if sampler.known:
        start = (sampler.centres(image, u) - hw / 2).round().clip(0)
    else:
        start = np.floor(u * (free + 1))
    box = np.concatenate([np.minimum(start, free).astype(hw.dtype), hw], -1)
    score = np.broadcast_to(np.float32(-1e-3) * np.arange(tries, dtype=np.float32), box.shape[:-1])
    if sampler.known:
        score = score + sampler.part_inside(image, box).clip(max=inside).astype(np.float32) / np.float32(inside)
    return box, score


def place(
    image: np.ndarray,
    u: np.ndarray,
    lengths: np.ndarray,
    sampler: RoiSampler,
    inside: float,
    taken: np.ndarray | None = None,
) -> np.ndarray:
    """Places M boxes, each at the best of C random positions; returns boxes (y0, x0, h, w), int `(M, 4)`.

    Args:
        image: Index of each box's image, `(M,)`.
        u: Uniform draws in [0, 1), `(M, C, 2)`.
        lengths: Heights and widths in pixels, `(M, 2)`.
        sampler: Sampler of the images' regions of interest.
        inside: Fraction of each box that should at least be inside the region.
        taken: Boxes (y0, x0, h, w) to avoid, `(M, m, 4)`, with h = 0 where unused, or None.
    """
    if not sampler.known and taken is None:
        u = u[:, :1]  # all positions are equally good
    box, score = _candidates(image, u, lengths, sampler, inside, shrink=False)
    if taken is not None:
        score = score - 10 * _overlap(box, taken)
    return box[np.arange(len(box)), score.argmax(1)].astype(int)


def place_all(
    image: np.ndarray, counts: np.ndarray, u: np.ndarray, lengths: np.ndarray, sampler: RoiSampler, inside: float,
    apart: bool, least: int = LEAST,
) -> np.ndarray:  # fmt: skip
    """Places the lesions of T images; returns boxes (y0, x0, h, w), int `(T, k, 4)`, 0 in unused slots.

    If the lesions of an image do not fit, all of them are made smaller and placed again.

    Args:
        image: Index of the region of interest that each image uses, `(T,)`.
        counts: Number of lesions in each image, `(T,)`.
        u: Uniform draws in [0, 1), `(T, k, C, 2)`.
        lengths: Heights and widths in pixels, `(T, k, 2)`.
        sampler: Sampler of the images' regions of interest.
        inside: Fraction of each box that should at least be inside the region.
        apart: Whether lesions must not overlap.
        least: Smallest height or width in pixels.
    """
    boxes = np.zeros((*lengths.shape[:2], 4), int)
    slots = int(counts.max()) if len(counts) else 0
    used = np.arange(slots) < counts[:, None]
    numbers = u[:, :slots, : None if sampler.known or apart else 1]
    todo = np.arange(len(counts))
    for shrink in SHRINK:
        sizes = (lengths[todo, :slots] * np.float32(shrink)).round().clip(min(least, sampler.side))
        box, score = _candidates(image[todo], numbers[todo], sizes, sampler, inside, shrink=True)
        chosen = np.zeros((len(todo), slots, 4), np.float32)
        clash = np.zeros((len(todo), slots), bool)
        rows = np.arange(len(todo))
        for slot in range(slots):
            near = _overlap(box[:, slot], chosen[:, :slot]) if apart else 0 * score[:, slot]
            best = (score[:, slot] - 10 * near).argmax(1)
            chosen[:, slot] = box[rows, slot, best] * used[todo, slot, None]
            clash[:, slot] = near[rows, best] > 0
        if sampler.known:
            clash |= sampler.part_inside(image[todo], chosen) < ENOUGH * inside
        boxes[todo, :slots] = chosen
        todo = todo[(clash & used[todo]).any(1)]
        if not len(todo):
            break
    return boxes


def _overlap(box: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Returns the fraction of boxes `(M, C, 4)` that `taken` `(M, m, 4)` cover with a margin, plus 1 if any."""
    a, b = box[:, :, None], taken[:, None].astype(box.dtype)
    ends = np.minimum(a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:])
    shared = (ends - np.maximum(a[..., :2], b[..., :2]) + GAP).clip(0)  # (M, C, m, 2)
    area = shared[..., 0] * shared[..., 1] * (b[..., 2] > 0)
    return np.asarray((area.sum(-1) / (box[..., 2] * box[..., 3])).clip(max=1) + (area > 0).any(-1))


def layers(boxes: np.ndarray) -> np.ndarray:
    """Returns layers `(T, k)` of boxes (y0, x0, h, w) `(T, k, 4)`: each is above all earlier boxes that it touches.

    A box that touches no earlier box is in layer 0. Lesions in the same layer may be painted in any order.
    """
    start, end = boxes[..., :2], boxes[..., :2] + boxes[..., 2:]
    layer: np.ndarray = np.zeros(boxes.shape[:-1], int)
    for slot in range(1, boxes.shape[1]):
        below = (start[:, :slot] <= end[:, slot, None]) & (end[:, :slot] >= start[:, slot, None])
        layer[:, slot] = (below.all(2) * (layer[:, :slot] + 1)).max(1)
    return layer


def draw_boxes(
    counts: Tensor, lengths: np.ndarray, side: int, generator: torch.Generator, roi: Tensor | None, apart: bool
) -> Tensor:
    """Draws boxes (y0, x0, y1, x1) for the lesions of B images, `(B, k, 4)` in pixels, 0 in unused slots.

    Args:
        counts: Number of lesions in each image, `(B,)`.
        lengths: Heights and widths in pixels, `(B, k, 2)`.
        roi: Regions of interest `(B, S, S)`, 1 inside, or None.
        apart: Whether to avoid overlaps where possible.
    """
    b, k = lengths.shape[:2]
    u = torch.rand(b, k, CANDIDATES, 2, generator=generator).numpy()
    boxes = place_all(np.arange(b), counts.numpy(), u, lengths, RoiSampler(roi, side), 0.95, apart)
    boxes[..., 2:] += boxes[..., :2]
    return torch.from_numpy(boxes)


def fill(boxes: Tensor, side: int) -> Tensor:
    """Returns masks, bool `(B, S, S)`, of the pixels inside at least one box (y0, x0, y1, x1) of `(B, k, 4)`."""
    at = torch.arange(side, device=boxes.device)
    rows = (at >= boxes[..., 0, None]) & (at < boxes[..., 2, None])
    cols = (at >= boxes[..., 1, None]) & (at < boxes[..., 3, None])
    return (rows[..., :, None] & cols[..., None, :]).any(1)

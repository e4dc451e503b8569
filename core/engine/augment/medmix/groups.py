"""Groups of lesions of similar size that are painted at once, each in a small square window of its image.

The lesions that each painting step changes are determined here, on the CPU, to avoid waiting for a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from core.engine.augment.config import BLENDS, DONORS, SHAPES
from core.engine.tensors import on_device

Which = Tensor | slice | None  # an index that selects some of L lesions; None selects none


@dataclass
class Group:
    """L lesions of one layer, each in a window of W x W pixels, W = `window`, that contains the lesion's box.

    rows, cols: long (L, W), the window's pixels relative to the box's corner. v, u: (L, W), the same from -1 to 1 over
    the box. top, left: long (L,), the window's corner in the image. crop: side in pixels of a square that fits every
    source box. The fields of type Which select the lesions that a painting step changes.
    """

    lesions: Lesions[Tensor]  # on the images' device
    window: int
    crop: int
    top: Tensor
    left: Tensor
    rows: Tensor
    cols: Tensor
    v: Tensor
    u: Tensor
    shapes: dict[str, Which]
    bulge: Which
    fisheye: Which
    wave: Which
    foreign: Which
    texture: Which
    marked: Which
    match: Which
    shading: Which
    noise: Which
    poisson: Which

    def inside(self) -> Tensor:
        """Returns a mask of each lesion's box in its window: bool (L, W, W)."""
        _, _, h, w = self.lesions.box.T[:, :, None]
        rows, cols = (self.rows >= 0) & (self.rows < h), (self.cols >= 0) & (self.cols < w)  # (L, W)
        inside: Tensor = rows[:, :, None] & cols[:, None]
        return inside


def groups(lesions: Lesions[np.ndarray], side: int, budget: int, device: torch.device) -> Iterator[Group]:
    """Yields groups of about `budget` pixels, on `device`, from lesions on the CPU as sorted by `read_draws`."""
    flags = _touched(lesions)
    extent, cut = lesions.box[:, 2:].max(1, initial=0), lesions.source[:, 2:].max(1, initial=0)
    ends = np.flatnonzero(np.diff(lesions.layer, append=-1)) + 1
    groups: list[tuple[slice, int, dict[str, np.ndarray]]] = []  # rows, window, which of them each step touches
    start = 0
    for layer_end in ends.tolist():
        while start < layer_end:
            window = min(side, int(extent[start]))
            rows = slice(start, min(layer_end, start + max(1, budget // window**2)))
            groups.append((rows, window, {name: np.flatnonzero(flag[rows]) for name, flag in flags.items()}))
            start = rows.stop
    if not groups:
        return
    names = [f.name for f in fields(lesions)]
    every = [index for _, _, which in groups for index in which.values()]
    moved = on_device([*(getattr(lesions, name) for name in names), *every], device)
    placed, copied = Lesions(**dict(zip(names, moved, strict=False))), iter(moved[len(names) :])
    for rows, window, flagged in groups:
        which = {name: _which(next(copied), rows) for name in flagged}
        yield _group(placed.pick(rows), window, min(side, max(2, int(cut[rows].max()))), side, which)


def _touched(lesions: Lesions[np.ndarray]) -> dict[str, np.ndarray]:
    """Returns for each painting step, by name, which lesions it changes, bool (L,)."""
    kinds = {name: lesions.kind == DONORS.index(name) for name in ("foreign", "texture", "marked")}
    shapes = {name: lesions.shape == i for i, name in enumerate(SHAPES)}
    return (
        kinds
        | shapes
        | {
            "bulge": lesions.bulge > 0,
            "fisheye": (lesions.fisheye > 0).any(1),
            "wave": lesions.wave > 0,
            "match": (lesions.match > 0) & ~kinds["texture"] & ~kinds["marked"],
            "shading": lesions.shading > 0,
            "noise": lesions.noise > 0,
            "poisson": lesions.blend == BLENDS.index("poisson"),
        }
    )


def _which(rows: Tensor, span: slice) -> Which:
    if len(rows) in (0, span.stop - span.start):
        return slice(None) if len(rows) else None
    return rows


def _group(lesions: Lesions[Tensor], window: int, crop: int, side: int, which: dict[str, Which]) -> Group:
    y0, x0, h, w = lesions.box.unbind(1)
    top, left = y0.clamp(max=side - window), x0.clamp(max=side - window)
    steps = torch.arange(window, device=y0.device)
    rows, cols = (top - y0)[:, None] + steps, (left - x0)[:, None] + steps
    v, u = (2 * rows + 1) / h[:, None] - 1, (2 * cols + 1) / w[:, None] - 1
    shapes = {name: which.pop(name) for name in SHAPES}
    return Group(lesions, window, crop, top, left, rows, cols, v, u, shapes, **which)


def read(x: Tensor, image: Tensor, top: Tensor, left: Tensor, window: int) -> Tensor:
    """Reads windows (L, C, W, W) of x (B, C, S, S), W = `window`, at image indices and corners top, left, each (L,)."""
    if x.device.type == "cpu":  # slice by slice: seven times as fast there as by index, and the same
        pixels = x.numpy()
        return torch.from_numpy(np.stack([pixels[at] for at in _slices(image, top, left, window)]))
    return x.unfold(-2, window, 1).unfold(-2, window, 1)[image, :, top, left]


def add(x: Tensor, image: Tensor, top: Tensor, left: Tensor, values: Tensor) -> None:
    """Adds windows `values` (L, C, W, W) to contiguous x (B, C, S, S) in place; all but one must be 0 in overlaps."""
    if x.device.type == "cpu":
        pixels = x.numpy()
        for at, value in zip(_slices(image, top, left, values.shape[-1]), values.numpy(), strict=True):
            pixels[at] += value
    else:
        x.view(-1).index_add_(0, _places(x, image, top, left, values.shape[-1]).flatten(), values.flatten())


def _places(x: Tensor, image: Tensor, top: Tensor, left: Tensor, window: int) -> Tensor:
    """Returns the indices of the pixels of windows (L, C, W, W) in the flattened x."""
    channels, side = x.shape[1], x.shape[-1]
    steps = torch.arange(window, device=x.device)
    planes = image[:, None] * channels + torch.arange(channels, device=x.device)  # (L, C)
    rows = planes[:, :, None] * side + (top[:, None] + steps)[:, None]  # (L, C, W)
    return rows[..., None] * side + (left[:, None] + steps)[:, None, None]


def _slices(image: Tensor, top: Tensor, left: Tensor, window: int) -> Iterator[tuple[int | slice, ...]]:
    for b, i, j in zip(image.tolist(), top.tolist(), left.tolist(), strict=True):
        yield b, slice(None), slice(i, i + window), slice(j, j + window)


# The parameters of a batch's lesions, as `read_draws` computes them from draws and a configuration.


A = TypeVar("A", np.ndarray, Tensor)


@dataclass
class Lesions(Generic[A]):
    """The parameters of L lesions, L rows in every field: arrays when they are drawn, tensors when they are painted.

    Boxes are y0, x0, h, w in pixels (int64). Coordinates v (down), u (right) within a lesion's box run from -1 to 1.
    """

    target: A  # (L,) index of the output image that it is pasted into
    image: A  # (L,) index of the image of the batch from which the target is made
    slot: A  # (L,) its number in the target; a later one covers an earlier one
    layer: A  # (L,) 0, or one more than the highest layer of the earlier lesions that it covers; see `layers`
    box: A  # (L, 4) where it is pasted
    source: A  # (L, 4) where it is cut
    donor: A  # (L,) from which image; -1 for none
    kind: A  # (L,) index into DONORS
    shape: A  # (L,) index into SHAPES
    blend: A  # (L,) index into BLENDS
    outline: A  # (L, 2, HARMONICS) cosine and sine amplitudes of an irregular outline
    softness: A  # (L,)
    opacity: A  # (L,)
    jitter: A  # (L, 4) brightness, contrast, saturation, hue; 1, 1, 1, 0 where there is none
    noise: A  # (L,) standard deviation; 0 for none
    seed: A  # (L,) of noise and texture
    points: A  # (L, c, 2) control points (v, u)
    fisheye: A  # (L, c) magnification; 0 for none
    lengths: A  # (L, c) wavelengths
    wave: A  # (L,) amplitude; 0 for none
    bulge: A  # (L,)
    shading: A  # (L,)
    light: A  # (L,) angle of the light that shades
    contrast: A  # (L,) of a drawn texture
    match: A  # (L,) how far its mean colour is brought to that of its place
    mono: A  # (L,) bool, one noise for the three channels
    tone: A  # (L, 4) made-up modality: order of channels (3 draws), inverted or not

    def __len__(self) -> int:
        return len(self.target)

    def pick(self, rows: A | slice) -> Lesions[A]:
        """Returns the lesions with the given indices."""
        if isinstance(rows, slice) and rows.indices(len(self)) == (0, len(self), 1):
            return self
        return Lesions(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

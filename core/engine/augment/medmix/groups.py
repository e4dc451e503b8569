"""Groups of lesions of similar size that are painted together, each lesion in a small square window of its image.

This module also determines, on the CPU, which lesions each painting step changes, to avoid waiting for a GPU.
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
    """L lesions of one layer, each in a square window that contains the lesion's box.

    Each field of type Which selects the lesions that one painting step changes.

    Attributes:
        lesions: Parameters of the lesions, on the images' device.
        window: Side length W of the windows in pixels.
        crop: Side length in pixels of a square into which every source box fits.
        top, left: Top row and left column of each window in the image, long `(L,)`.
        rows, cols: Rows and columns of each window's pixels relative to the box's corner, long `(L, W)`.
        v, u: Vertical and horizontal box coordinates of the pixels `(L, W)`, -1 to 1 inside the box.
    """

    lesions: Lesions[Tensor]
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
        """Returns a mask of each lesion's box in its window, bool `(L, W, W)`."""
        _, _, h, w = self.lesions.box.T[:, :, None]
        rows, cols = (self.rows >= 0) & (self.rows < h), (self.cols >= 0) & (self.cols < w)  # (L, W)
        inside: Tensor = rows[:, :, None] & cols[:, None]
        return inside


def groups(lesions: Lesions[np.ndarray], side: int, budget: int, device: torch.device) -> Iterator[Group]:
    """Yields groups, on `device`, with about `budget` pixels in their windows, from the result of `read_draws`."""
    flags = _touched(lesions)
    extent, cut = lesions.box[:, 2:].max(1, initial=0), lesions.source[:, 2:].max(1, initial=0)
    ends = np.flatnonzero(np.diff(lesions.layer, append=-1)) + 1
    groups: list[tuple[slice, int, dict[str, np.ndarray]]] = []  # rows, window, and the rows that each step changes
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
    """Returns, for each painting step by name, whether it changes each lesion, bool `(L,)`."""
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
    """Reads square windows `(L, C, window, window)` of images x `(B, C, S, S)`.

    `image`, `top` and `left`, each `(L,)`, are the image index, top row and left column of each window.
    """
    if x.device.type == "cpu":  # slicing is seven times as fast as indexing on a CPU
        pixels = x.numpy()
        return torch.from_numpy(np.stack([pixels[at] for at in _slices(image, top, left, window)]))
    return x.unfold(-2, window, 1).unfold(-2, window, 1)[image, :, top, left]


def add(x: Tensor, image: Tensor, top: Tensor, left: Tensor, values: Tensor) -> None:
    """Adds `values` `(L, C, W, W)` to windows of contiguous images x `(B, C, S, S)` in place; see `read`.

    Where windows overlap, at most one of their values may differ from 0.
    """
    if x.device.type == "cpu":
        pixels = x.numpy()
        for at, value in zip(_slices(image, top, left, values.shape[-1]), values.numpy(), strict=True):
            pixels[at] += value
    else:
        x.view(-1).index_add_(0, _places(x, image, top, left, values.shape[-1]).flatten(), values.flatten())


def _places(x: Tensor, image: Tensor, top: Tensor, left: Tensor, window: int) -> Tensor:
    """Returns the indices of the pixels of windows `(L, C, W, W)` in the flattened x."""
    channels, side = x.shape[1], x.shape[-1]
    steps = torch.arange(window, device=x.device)
    planes = image[:, None] * channels + torch.arange(channels, device=x.device)  # (L, C)
    rows = planes[:, :, None] * side + (top[:, None] + steps)[:, None]  # (L, C, W)
    return rows[..., None] * side + (left[:, None] + steps)[:, None, None]


def _slices(image: Tensor, top: Tensor, left: Tensor, window: int) -> Iterator[tuple[int | slice, ...]]:
    for b, i, j in zip(image.tolist(), top.tolist(), left.tolist(), strict=True):
        yield b, slice(None), slice(i, i + window), slice(j, j + window)


A = TypeVar("A", np.ndarray, Tensor)


@dataclass
class Lesions(Generic[A]):
    """Parameters of L lesions, with L rows per field: NumPy arrays from `read_draws`, tensors during painting.

    Boxes are y0, x0, h, w in pixels (int64). The box coordinates v (down) and u (right) run from -1 to 1 within a
    lesion's box.
    """

    target: A  # (L,) index of the output image that the lesion is pasted into
    image: A  # (L,) index of the image of the batch from which the target is made
    slot: A  # (L,) number of the lesion in the target; a later lesion covers an earlier one
    layer: A  # (L,) 0, or one more than the highest layer of the earlier lesions that the box touches; see `layers`
    box: A  # (L, 4) box in the target
    source: A  # (L, 4) box in the donor image
    donor: A  # (L,) index of the donor image; -1 for none
    kind: A  # (L,) index into DONORS
    shape: A  # (L,) index into SHAPES
    blend: A  # (L,) index into BLENDS
    outline: A  # (L, 2, HARMONICS) cosine and sine amplitudes of an irregular outline
    softness: A  # (L,)
    opacity: A  # (L,)
    jitter: A  # (L, 4) brightness, contrast, saturation, hue; 1, 1, 1, 0 for none
    noise: A  # (L,) standard deviation; 0 for none
    seed: A  # (L,) seed of noise and texture
    points: A  # (L, c, 2) control points (v, u)
    fisheye: A  # (L, c) magnification; 0 for none
    lengths: A  # (L, c) wavelengths
    wave: A  # (L,) amplitude; 0 for none
    bulge: A  # (L,)
    shading: A  # (L,)
    light: A  # (L,) angle of the light used for shading
    contrast: A  # (L,) contrast of a drawn texture
    match: A  # (L,) shift of the mean colour towards that of the target box; 1 is complete
    mono: A  # (L,) bool, whether the three channels share the same noise
    tone: A  # (L, 4) imitated modality: three draws for the order of channels, one for the inversion

    def __len__(self) -> int:
        return len(self.target)

    def pick(self, rows: A | slice) -> Lesions[A]:
        """Returns the lesions with the given indices."""
        if isinstance(rows, slice) and rows.indices(len(self)) == (0, len(self), 1):
            return self
        return Lesions(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

"""Groups of lesions of like size that are painted at once, each in a small square window of its image.

What a step needs to know to leave lesions out is found here, on the CPU, so that no device is asked for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from core.engine.augment.config import BLENDS, DONORS, SHAPES
from core.engine.tensors import on_device

Which = Tensor | slice | None  # of L lesions: what indexes them, or None for none of them


@dataclass
class Group:
    """L lesions, no two in one image, each in a window of `window` x `window` pixels (W) that holds its box.

    rows, cols (L, W) long: the window's pixels, counted from the box's corner; v, u (L, W): the same in -1..1 over the
    box. top, left (L,) long: where the window begins in the image. crop: pixels that hold what any of them is cut from.
    """

    lesions: Lesions  # on the images' device
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
        """Marks the pixels of each lesion's box: bool (L, W, W)."""
        _, _, h, w = self.lesions.box.T[:, :, None]
        rows, cols = (self.rows >= 0) & (self.rows < h), (self.cols >= 0) & (self.cols < w)  # (L, W)
        inside: Tensor = rows[:, :, None] & cols[:, None]
        return inside


def groups(lesions: Lesions, side: int, budget: int, device: torch.device) -> Iterator[Group]:
    """Cut lesions (on the CPU, slot by slot, in each the largest first) into groups of about `budget` pixels."""
    flags = {name: flag.numpy() for name, flag in _touched(lesions).items()}
    extent, cut = lesions.box[:, 2:].amax(1).tolist(), lesions.source[:, 2:].amax(1).numpy()
    ends = np.flatnonzero(np.diff(lesions.slot.numpy(), append=-1)) + 1
    groups: list[tuple[slice, int, dict[str, np.ndarray]]] = []  # rows, window, which of them each step touches
    start = 0
    for slot_end in ends.tolist():
        while start < slot_end:
            window = min(side, int(extent[start]))
            rows = slice(start, min(slot_end, start + max(1, budget // window**2)))
            groups.append((rows, window, {name: np.flatnonzero(flag[rows]) for name, flag in flags.items()}))
            start = rows.stop
    if not groups:
        return
    names = [f.name for f in fields(lesions)]
    every = [torch.from_numpy(index) for _, _, which in groups for index in which.values()]
    moved = on_device([*(getattr(lesions, name) for name in names), *every], device)
    placed, copied = Lesions(**dict(zip(names, moved, strict=False))), iter(moved[len(names) :])
    for rows, window, flagged in groups:
        which = {name: _which(next(copied), rows) for name in flagged}
        yield _group(placed.pick(rows), window, min(side, max(2, int(cut[rows].max()))), side, which)


def _touched(lesions: Lesions) -> dict[str, Tensor]:
    """Which lesions each step touches, bool (L,)."""
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


def _group(lesions: Lesions, window: int, crop: int, side: int, which: dict[str, Which]) -> Group:
    y0, x0, h, w = lesions.box.unbind(1)
    top, left = y0.clamp(max=side - window), x0.clamp(max=side - window)
    steps = torch.arange(window, device=y0.device)
    rows, cols = (top - y0)[:, None] + steps, (left - x0)[:, None] + steps
    v, u = (2 * rows + 1) / h[:, None] - 1, (2 * cols + 1) / w[:, None] - 1
    shapes = {name: which.pop(name) for name in SHAPES}
    return Group(lesions, window, crop, top, left, rows, cols, v, u, shapes, **which)


def _windows(x: Tensor, window: int) -> Tensor:
    return x.unfold(-2, window, 1).unfold(-2, window, 1)


def read(x: Tensor, image: Tensor, top: Tensor, left: Tensor, window: int) -> Tensor:
    """Reads windows (L, C, W, W) of x (B, C, S, S), at rows top (L,), columns left (L,) of images image (L,)."""
    if x.device.type == "cpu":  # slice by slice: seven times as fast there as by index, and the same
        corners = zip(image.tolist(), top.tolist(), left.tolist(), strict=True)
        return torch.stack([x[b, :, i : i + window, j : j + window] for b, i, j in corners])
    return _windows(x, window)[image, :, top, left]


def write(x: Tensor, image: Tensor, top: Tensor, left: Tensor, values: Tensor) -> None:
    """Write windows (L, C, W, W) into x in place; no two of them in one image."""
    window = values.shape[-1]
    if x.device.type == "cpu":
        for b, i, j, value in zip(image.tolist(), top.tolist(), left.tolist(), values, strict=True):
            x[b, :, i : i + window, j : j + window] = value
    else:
        _windows(x, window)[image, :, top, left] = values


# The parameters of a batch's lesions: what was drawn, read under a configuration, one row for each lesion.


@dataclass
class Lesions:
    """Parameters of L lesions; every field has L rows. Boxes are y0, x0, h, w in pixels (long).

    Coordinates v (down), u (right) within a lesion's box run from -1 to 1.
    """

    target: Tensor  # (L,) which of the images made it is pasted into
    image: Tensor  # (L,) which image of the batch that one is made from
    slot: Tensor  # (L,) its number in the target; a later one covers an earlier one
    box: Tensor  # (L, 4) where it is pasted
    source: Tensor  # (L, 4) where it is cut
    donor: Tensor  # (L,) from which image; -1 for none
    kind: Tensor  # (L,) index into DONORS
    shape: Tensor  # (L,) index into SHAPES
    blend: Tensor  # (L,) index into BLENDS
    outline: Tensor  # (L, 2, HARMONICS) cosine and sine amplitudes of an irregular outline
    softness: Tensor  # (L,)
    opacity: Tensor  # (L,)
    jitter: Tensor  # (L, 4) brightness, contrast, saturation, hue; 1, 1, 1, 0 where there is none
    jitter_order: Tensor  # (L, 4) which of the four comes first, second, ...
    colour: Tensor  # (L, 3, 3) M of the jitter as one map x' = M x + P m, with m the mean colour; see `colour_map`
    towards_mean: Tensor  # (L, 3, 3) P of it
    noise: Tensor  # (L,) standard deviation; 0 for none
    seed: Tensor  # (L,) of noise and texture
    points: Tensor  # (L, c, 2) control points (v, u)
    fisheye: Tensor  # (L, c) magnification; 0 for none
    lengths: Tensor  # (L, c) wavelengths
    wave: Tensor  # (L,) amplitude; 0 for none
    bulge: Tensor  # (L,)
    shading: Tensor  # (L,)
    light: Tensor  # (L,) angle of the light that shades
    contrast: Tensor  # (L,) of a drawn texture
    match: Tensor  # (L,) how far its mean colour is brought to that of its place
    mono: Tensor  # (L,) bool, one noise for the three channels
    tone: Tensor  # (L, 4) made-up modality: order of channels (3 draws), inverted or not

    def __len__(self) -> int:
        return len(self.target)

    def pick(self, rows: Tensor | slice) -> Lesions:
        return Lesions(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

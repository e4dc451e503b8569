"""Where lesions go: random boxes, inside the region of interest, apart from one another if asked.

Several candidates are drawn for each lesion at once, later ones smaller, and the first that fits is taken.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

CANDIDATES = 24
LEAST = 5  # pixels; smaller than this a soft outline falls apart
GAP = 2  # pixels between lesions that must not touch
GRID = 64  # the region of interest is consulted at this resolution at most


class Room:
    """The region of interest on the CPU, coarse, ready to be asked how much of a box lies inside."""

    def __init__(self, roi: Tensor | None, side: int) -> None:
        self.side = side
        self.cells = min(side, GRID)
        self.known = roi is not None
        if roi is None:
            return
        part = F.interpolate(roi.float()[:, None], (self.cells, self.cells), mode="area")[:, 0].cpu().double()
        part = torch.where((part.flatten(1).sum(1) > 0)[:, None, None], part, 1.0)  # an empty region says nothing
        self.sums = F.pad(part.cumsum(1).cumsum(2), (1, 0, 1, 0))
        full = (part > 0.999).double().flatten(1)
        self.mass = torch.where((full.sum(1) > 0)[:, None], full, part.flatten(1)).cumsum(1)

    def centres(self, image: Tensor, u: Tensor) -> Tensor:
        """image (M,), even draws u (M, T, 2) -> centres (M, T, 2) in pixels, even over the region of interest."""
        mass = self.mass[image]
        target = u[..., 0].double() * mass[:, -1:]
        cell = torch.searchsorted(mass, target, right=True).clamp_(max=self.cells**2 - 1)
        # what is left of the first draw within its cell serves for the second coordinate there
        before = torch.where(cell > 0, mass.gather(1, (cell - 1).clamp(min=0)), 0.0)
        left = ((target - before) / (mass.gather(1, cell) - before).clamp(min=1e-9)).clamp(0, 1)
        place = torch.stack([cell // self.cells + u[..., 1], cell % self.cells + left], -1)
        return place * (self.side / self.cells)

    def part_inside(self, image: Tensor, box: Tensor) -> Tensor:
        """image (M,), boxes (M, T, 4) as y0, x0, h, w -> part of each inside (M, T)."""
        scale = self.cells / self.side
        y0 = (box[..., 0] * scale).floor().long()
        x0 = (box[..., 1] * scale).floor().long()
        y1 = ((box[..., 0] + box[..., 2]) * scale).ceil().long().clamp_(max=self.cells)
        x1 = ((box[..., 1] + box[..., 3]) * scale).ceil().long().clamp_(max=self.cells)
        i = image[:, None]
        total = self.sums[i, y1, x1] - self.sums[i, y0, x1] - self.sums[i, y1, x0] + self.sums[i, y0, x0]
        return total / ((y1 - y0) * (x1 - x0)).clamp(min=1)


def sides(u: Tensor, size: tuple[float, float], aspect: float, side: int) -> Tensor:
    """Even draws (..., 2) -> height and width (..., 2) in pixels: mean within `size`, ratio up to `aspect`."""
    length = (size[0] + u[..., 0] * (size[1] - size[0])) * side
    ratio = aspect ** (u[..., 1] - 0.5)
    return torch.stack([length * ratio, length / ratio], -1).round_().clamp_(min(LEAST, side), side)


def place(
    image: Tensor,
    u: Tensor,
    lengths: Tensor,
    room: Room,
    inside: float,
    taken: Tensor | None = None,
    shrink: bool = True,
) -> Tensor:
    """One box per row. image (M,): which image's region; u (M, T, 2) even draws; lengths (M, 2) height and width.

    taken (M, m, 4): boxes (y0, x0, h, w) to keep away from (h = 0: none). Returns (M, 4) long: y0, x0, h, w.
    The later candidates are smaller (down to a quarter) if `shrink`. Where none fits, the one that fits best is taken.
    """
    tries = u.shape[1]
    factor = torch.linspace(1.5, 0.25, tries).clamp_(max=1) if shrink else torch.ones(tries)
    hw = (lengths[:, None] * factor[None, :, None]).round_().clamp_(min=min(LEAST, room.side))
    hw = torch.minimum(hw, lengths[:, None])
    free = room.side - hw
    if room.known:
        start = (room.centres(image, u) - hw / 2).round()
        start = torch.minimum(start.clamp_(min=0), free)
    else:
        start = torch.minimum((u * (free + 1)).floor(), free)
    box = torch.cat([start.to(hw.dtype), hw], -1)
    score = -1e-3 * torch.arange(tries)[None].expand(len(u), -1)
    if room.known:
        score = score + room.part_inside(image, box).clamp(max=inside).float() / inside
    if taken is not None and taken.shape[1]:
        score = score - 10 * _overlap(box, taken.to(hw.dtype))
    best = score.argmax(1)
    return box[torch.arange(len(box)), best].long()


def place_all(counts: Tensor, u: Tensor, lengths: Tensor, room: Room, inside: float, apart: bool) -> Tensor:
    """counts (B,) lesions for each image, u (B, k, T, 2), lengths (B, k, 2) -> boxes (B, k, 4) y0, x0, h, w; 0: unused.

    Where they find no room (inside the region, apart if they must be), that image's are made smaller and placed anew.
    """
    boxes = torch.zeros(*lengths.shape[:2], 4, dtype=torch.long)
    todo = torch.arange(len(counts))
    for shrink in (1.0, 0.7, 0.5, 0.35, 0.25, 0.1):
        clash = torch.zeros(len(todo), dtype=torch.bool)
        boxes[todo] = 0
        for slot in range(int(counts[todo].max()) if len(todo) else 0):
            wanted = (lengths[todo, slot] * shrink).round_().clamp_(min=min(LEAST, room.side))
            taken = boxes[todo, :slot] if apart else None
            box = place(todo, u[todo, slot], wanted, room, inside, taken) * (counts[todo] > slot)[:, None]
            bad = torch.zeros_like(clash)
            if apart and slot:
                bad |= _overlap(box[:, None].to(u.dtype), taken.to(u.dtype))[:, 0] > 0
            if room.known:
                bad |= room.part_inside(todo, box[:, None])[:, 0] < 0.8 * inside
            clash |= bad & (counts[todo] > slot)
            boxes[todo, slot] = box
        todo = todo[clash]
        if not len(todo):
            break
    return boxes


def _overlap(box: Tensor, taken: Tensor) -> Tensor:
    """boxes (M, T, 4), taken (M, m, 4) -> (M, T): part of a box's area lost, plus 1 if it touches any at all."""
    a, b = box[:, :, None], taken[:, None]
    tall = torch.minimum(a[..., 0] + a[..., 2], b[..., 0] + b[..., 2]) - torch.maximum(a[..., 0], b[..., 0]) + GAP
    wide = torch.minimum(a[..., 1] + a[..., 3], b[..., 1] + b[..., 3]) - torch.maximum(a[..., 1], b[..., 1]) + GAP
    area = tall.clamp_(min=0) * wide.clamp_(min=0) * (b[..., 2] > 0)
    return (area.sum(-1) / (box[..., 2] * box[..., 3])).clamp(max=1) + (area > 0).any(-1)

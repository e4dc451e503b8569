"""Boxes of several lesions per image: drawing them and filling them in."""

from __future__ import annotations

import torch
from torch import Tensor

from core.engine.augment.placement import CANDIDATES, Room, place


def draw_boxes(
    counts: Tensor, lengths: Tensor, side: int, generator: torch.Generator, roi: Tensor | None, apart: bool
) -> Tensor:
    """counts (B,), lengths (B, k, 2) height and width in pixels -> (B, k, 4) y0, x0, y1, x1; 0 where unused."""
    b, k = lengths.shape[:2]
    room = Room(roi, side)
    u = torch.rand(b, k, CANDIDATES, 2, generator=generator)
    boxes = torch.zeros(b, k, 4, dtype=torch.long)
    for slot in range(int(counts.max()) if b else 0):
        taken = boxes[:, :slot] if apart else None
        boxes[:, slot] = place(torch.arange(b), u[:, slot], lengths[:, slot], room, 0.95, taken)
        boxes[:, slot] *= (counts > slot)[:, None]
    boxes[..., 2:] += boxes[..., :2]
    return boxes


def fill(boxes: Tensor, side: int) -> Tensor:
    """boxes (B, k, 4) -> bool (B, S, S), True inside any of them."""
    at = torch.arange(side, device=boxes.device)
    rows = (at >= boxes[..., 0, None]) & (at < boxes[..., 2, None])
    cols = (at >= boxes[..., 1, None]) & (at < boxes[..., 3, None])
    return (rows[..., :, None] & cols[..., None, :]).any(1)

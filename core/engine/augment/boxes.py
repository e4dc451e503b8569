"""Boxes of several lesions per image: drawing them and filling them in."""

from __future__ import annotations

import torch
from torch import Tensor

from core.engine.augment.placement import CANDIDATES, RoiSampler, place_all


def draw_boxes(
    counts: Tensor, lengths: Tensor, side: int, generator: torch.Generator, roi: Tensor | None, apart: bool
) -> Tensor:
    """counts (B,), lengths (B, k, 2) height and width in pixels -> (B, k, 4) y0, x0, y1, x1; 0 where unused."""
    b, k = lengths.shape[:2]
    u = torch.rand(b, k, CANDIDATES, 2, generator=generator)
    boxes = place_all(torch.arange(b), counts, u, lengths, RoiSampler(roi, side), 0.95, apart)
    boxes[..., 2:] += boxes[..., :2]
    return boxes


def fill(boxes: Tensor, side: int) -> Tensor:
    """boxes (B, k, 4) -> bool (B, S, S), True inside any of them."""
    at = torch.arange(side, device=boxes.device)
    rows = (at >= boxes[..., 0, None]) & (at < boxes[..., 2, None])
    cols = (at >= boxes[..., 1, None]) & (at < boxes[..., 3, None])
    return (rows[..., :, None] & cols[..., None, :]).any(1)

"""l_pos: classify where a patch lies from its neighbour (Eq. 9, after Doersch et al. 2015)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# The eight neighbours as (down, right), row by row: the class of a pair is its place in this list.
NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))


def position_loss(logits: Tensor, places: Tensor) -> Tensor:
    """Cross-entropy -E log p^T f_gamma(f_theta(x_1), f_theta(x_2)) (Eq. 9).

    logits (B, 8), before the softmax; places (B,), the second patch's index in NEIGHBOURS. Returns a scalar, float32.
    """
    return F.cross_entropy(logits.float(), places)


def draw_corners(
    count: int, side: int, patch: int, jitter: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Where to cut `count` pairs of neighbouring patches in images of side x side pixels.

    The direction is drawn first, evenly, then a place where both patches fit. Both are then moved by up to `jitter`
    pixels, as far as the image has room, so that the seam between them does not reveal the place.
    Returns first (count, 2) and second (count, 2) top left corners as (down, right) in pixels, and places (count,).
    Raises ValueError if two patches do not fit side by side.
    """
    if side < 2 * patch:
        raise ValueError(f"two patches of {patch} pixels do not fit side by side in images of {side}; use {2 * patch}")
    places = torch.randint(len(NEIGHBOURS), (count,), generator=generator)
    offset = torch.tensor(NEIGHBOURS)[places]
    low, high = (-offset).clamp(min=0) * patch, side - patch - offset.clamp(min=0) * patch
    spot = torch.rand((count, 2), generator=generator)
    first = low + (spot * (high - low + 1)).long()
    moves = torch.randint(-jitter, jitter + 1, (2, count, 2), generator=generator)
    last = side - patch
    return (first + moves[0]).clamp(0, last), (first + offset * patch + moves[1]).clamp(0, last), places


def cut(images: Tensor, corners: Tensor, patch: int) -> Tensor:
    """(B, C, S, S) and corners (B, 2) in pixels -> (B, C, patch, patch), cut without resampling."""
    step = torch.arange(patch, device=images.device)
    corners = corners.to(images.device)
    rows, columns = corners[:, :1] + step, corners[:, 1:] + step  # (B, patch) each
    batch = torch.arange(len(images), device=images.device)[:, None, None]
    return images.permute(0, 2, 3, 1)[batch, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()

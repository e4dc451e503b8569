"""CutPaste and CutPaste-Scar: a piece of an image pasted elsewhere in it (Li et al. 2021, Sec. 2.2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.colour import apply_colour, colour_map, grey_images, jitter_factors, keep_grey

AREA = (0.02, 0.15)  # of the image's
ASPECT = (0.3, 1 / 0.3)
SCAR_WIDTH, SCAR_LENGTH = (2, 16), (10, 25)  # pixels at 256
SCAR_ANGLE = 45.0  # degrees to either side
JITTER = (0.1, 0.1, 0.1, 0.1)  # brightness, contrast, saturation, hue of the piece


def cut_paste(x: Tensor, draws: torch.Generator) -> Tensor:
    """x (B, 3, S, S) in [0, 1] -> the same shape: of each image a rectangle of it, jittered, at another place of it."""
    side = x.shape[-1]
    area, aspect, *places = torch.rand(6, len(x), generator=draws)
    area = (AREA[0] + area * (AREA[1] - AREA[0])) * side**2
    low, high = math.log(ASPECT[0]), math.log(ASPECT[1])
    ratio = torch.exp(low + aspect * (high - low))
    h = (area / ratio).sqrt().round().clamp(1, side - 1).long().tolist()
    w = (area * ratio).sqrt().round().clamp(1, side - 1).long().tolist()
    coloured, out = jittered(x, draws), x.clone()
    for i in range(len(x)):
        (y0, y1), (x0, x1) = (
            [int(float(p[i]) * (side - size[i] + 1)) for p in pair] for pair, size in ((places[:2], h), (places[2:], w))
        )
        out[i, :, y1 : y1 + h[i], x1 : x1 + w[i]] = coloured[i, :, y0 : y0 + h[i], x0 : x0 + w[i]]
    return out


def cut_paste_scar(x: Tensor, draws: torch.Generator) -> Tensor:
    """x (B, 3, S, S) -> the same shape: of each image a long thin rectangle of it, jittered and turned, elsewhere."""
    side = x.shape[-1]
    width, length, angle, fx, fy, tx, ty = torch.rand(7, len(x), generator=draws).to(x.device)
    scale = side / 256
    half_w = (SCAR_WIDTH[0] + width * (SCAR_WIDTH[1] - SCAR_WIDTH[0])).mul(scale).clamp(min=1) / 2
    half_l = (SCAR_LENGTH[0] + length * (SCAR_LENGTH[1] - SCAR_LENGTH[0])).mul(scale).clamp(min=2) / 2
    turn = (2 * angle - 1) * math.radians(SCAR_ANGLE)
    at = torch.arange(side, device=x.device) + 0.5

    def middle(u: Tensor) -> Tensor:  # so that the piece lies inside, however it is turned
        reach = (half_w**2 + half_l**2).sqrt()
        return (reach + u * (side - 2 * reach).clamp(min=0))[:, None, None]

    down, right = at[None, :, None] - middle(ty), at[None, None, :] - middle(tx)  # from the middle of the pasted piece
    cos, sin = turn.cos()[:, None, None], turn.sin()[:, None, None]
    along, across = cos * right + sin * down, cos * down - sin * right  # in the piece's own axes
    inside = (along.abs() <= half_l[:, None, None]) & (across.abs() <= half_w[:, None, None])
    grid = torch.stack([along + middle(fx), across + middle(fy)], 3) * (2 / side) - 1
    piece = F.grid_sample(jittered(x, draws), grid, padding_mode="border", align_corners=False)
    return torch.where(inside[:, None], piece, x)


def jittered(x: Tensor, draws: torch.Generator) -> Tensor:
    """Colour jitter of (B, 3, S, S); grey images stay grey."""
    factors = jitter_factors(torch.rand(len(x), 4, generator=draws), JITTER)
    order = torch.rand(len(x), 4, generator=draws).argsort(1)
    grey = grey_images(x)
    matrix, offset = (keep_grey(part.to(x.device), grey) for part in colour_map(factors, order))
    return apply_colour(x, matrix, offset, x.mean((2, 3))).clamp(0, 1)

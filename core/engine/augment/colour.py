"""Colour jitter as one affine map of RGB per image: brightness, contrast, saturation and hue in any order, then grey.

Each of the four is affine in the colour, so the chain is one 3 x 3 matrix and an offset: one pass over the pixels.
Two things differ from torchvision's ColorJitter: values are clamped once at the end, not after each of the four, and
hue turns the colour about the grey axis (in YIQ, as TensorFlow's first `adjust_hue` did) rather than in HSV.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)
_YIQ = torch.tensor([LUMA, (0.595716, -0.274453, -0.321263), (0.211456, -0.522591, 0.311135)], dtype=torch.float64)
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


def jitter_factors(u: Tensor, strength: tuple[float, float, float, float]) -> Tensor:
    """Draws u (..., 4) in [0, 1) -> brightness, contrast, saturation in 1 +- strength, hue in +- strength (turns)."""
    span = torch.tensor(strength, dtype=u.dtype)
    base = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=u.dtype)
    factors = base + (2 * u - 1) * span
    factors[..., :3].clamp_(min=0)
    return factors


def colour_map(factors: Tensor, order: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices (L, 3, 3) and offsets (L, 3) of the chain.

    factors (L, 4): brightness, contrast, saturation, hue. order (L, 4): which comes first, second, ...
    means (L, 3): mean colour before the chain; contrast pulls towards the grey of the mean it finds, as in torchvision.
    """
    device, dtype = means.device, means.dtype
    factors = factors.to(device, dtype)
    order = order.to(device)
    luma = torch.tensor(LUMA, device=device, dtype=dtype)
    eye = torch.eye(3, device=device, dtype=dtype)
    bright = factors[:, BRIGHTNESS, None, None] * eye
    contrast = factors[:, CONTRAST, None, None] * eye
    saturate = factors[:, SATURATION, None, None]
    saturate = saturate * eye + (1 - saturate) * luma.expand(3, 3)
    steps = torch.stack([bright, contrast, saturate, hue_matrix(factors[:, HUE])], 1)
    matrix = eye.expand(len(means), 3, 3)
    offset = torch.zeros_like(means)
    for place in range(4):
        which = order[:, place]
        step = steps.gather(1, which[:, None, None, None].expand(-1, 1, 3, 3))[:, 0]
        grey = ((matrix @ means[:, :, None])[:, :, 0] + offset) @ luma
        pull = (which == CONTRAST).to(dtype) * (1 - factors[:, CONTRAST]) * grey
        matrix = step @ matrix
        offset = (step @ offset[:, :, None])[:, :, 0] + pull[:, None]
    return matrix, offset


def hue_matrix(turns: Tensor) -> Tensor:
    """(L,) in turns -> (L, 3, 3), rotation of the chroma plane; greys stay."""
    yiq = _YIQ.to(turns.device, turns.dtype)
    back = torch.linalg.inv(_YIQ).to(turns.device, turns.dtype)
    angle = 2 * math.pi * turns
    turn = torch.zeros(len(turns), 3, 3, device=turns.device, dtype=turns.dtype)
    turn[:, 0, 0] = 1
    turn[:, 1, 1] = turn[:, 2, 2] = torch.cos(angle)
    turn[:, 2, 1] = torch.sin(angle)
    turn[:, 1, 2] = -turn[:, 2, 1]
    return back @ turn @ yiq


def apply_colour(x: Tensor, matrix: Tensor, offset: Tensor) -> Tensor:
    """x (L, 3, H, W) -> matrix x + offset, not clamped."""
    return torch.baddbmm(offset[:, :, None], matrix, x.flatten(2)).view_as(x)

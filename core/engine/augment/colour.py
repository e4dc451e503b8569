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
_RGB = torch.linalg.inv(_YIQ)
PLAIN = torch.tensor([1.0, 1.0, 1.0, 0.0])  # factors that change nothing
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


def jitter_factors(u: Tensor, strength: tuple[float, float, float, float]) -> Tensor:
    """Turns uniform draws u (..., 4) in [0, 1) into the factors (..., 4) of a colour jitter.

    Brightness, contrast and saturation lie in 1 +- strength, but not below 0; hue in +- strength (turns).
    """
    span = torch.tensor(strength, dtype=u.dtype)
    factors: Tensor = PLAIN.to(u.dtype) + (2 * u - 1) * span
    factors[..., :3].clamp_(min=0)
    return factors


def colour_map(factors: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the chain as matrices M and P, each (L, 3, 3): x' = M x + P m.

    m is the image's mean colour before the chain.
    factors (L, 4): brightness, contrast, saturation, hue. order (L, 4): which comes first, second, ...
    Contrast pulls towards the grey of the mean it finds, as in torchvision; that mean is linear in m.
    """
    device, dtype = factors.device, factors.dtype
    luma = torch.tensor(LUMA, device=device, dtype=dtype).expand(3, 3)
    eye = torch.eye(3, device=device, dtype=dtype)
    bright, contrast, saturate, hue = factors.unbind(1)
    bright, saturate = bright[:, None, None], saturate[:, None, None]
    contrast = contrast[:, None, None]
    steps = torch.stack([bright * eye, contrast * eye, saturate * eye + (1 - saturate) * luma, hue_matrix(hue)], 1)
    matrix, offset = eye.expand(len(factors), 3, 3), torch.zeros(len(factors), 3, 3, device=device, dtype=dtype)
    for position in range(4):
        which = order[:, position, None, None, None]
        step = steps.gather(1, which.expand(-1, 1, 3, 3))[:, 0]
        towards = (which[:, 0] == CONTRAST) * (1 - contrast) * (luma @ (matrix + offset))
        matrix, offset = step @ matrix, step @ offset + towards
    return matrix, offset


def hue_matrix(turns: Tensor) -> Tensor:
    """Computes rotations of the chroma plane by (L,) turns, as matrices (L, 3, 3); greys stay."""
    yiq: Tensor = _YIQ.to(turns.device, turns.dtype)
    back: Tensor = _RGB.to(turns.device, turns.dtype)
    angle = 2 * math.pi * turns
    turn = torch.zeros(len(turns), 3, 3, device=turns.device, dtype=turns.dtype)
    turn[:, 0, 0] = 1
    turn[:, 1, 1] = turn[:, 2, 2] = torch.cos(angle)
    turn[:, 2, 1] = torch.sin(angle)
    turn[:, 1, 2] = -turn[:, 2, 1]
    matrix: Tensor = back @ turn @ yiq
    return matrix


def apply_colour(x: Tensor, matrix: Tensor, offset: Tensor, means: Tensor) -> Tensor:
    """Applies colour maps: x (L, 3, H, W), matrices (L, 3, 3), means (L, 3) -> matrix x + offset means, not clamped."""
    return torch.baddbmm(offset @ means[:, :, None], matrix, x.flatten(2)).view_as(x)


def grey_images(x: Tensor) -> Tensor:
    """Tells which of x (B, 3, S, S) have three equal channels in every pixel: bool (B,) on its device."""
    if x.device.type == "cpu":  # ends at the first pixel that has a colour
        return torch.tensor([torch.equal(i[0], i[1]) and torch.equal(i[0], i[2]) for i in x], dtype=torch.bool)
    return ((x[:, 0] == x[:, 1]) & (x[:, 0] == x[:, 2])).flatten(1).all(1)


def keep_grey(matrix: Tensor, grey: Tensor) -> Tensor:
    """Makes colour maps (L, 3, 3) give grey where grey (L,) is True: any colour they added would mark the class."""
    row = sum(weight * matrix[:, i : i + 1] for i, weight in enumerate(LUMA))  # (L, 1, 3)
    return torch.where(grey[:, None, None], row, matrix)

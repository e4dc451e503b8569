"""Where each pixel of a patch is taken from: fisheye, horizontal wave and bulge, in box coordinates (-1..1 inside).

Each takes and returns the coordinates (v, u), (L, H, W), at which the donor is read.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from core.engine.augment.medmix.lesions import Lesions

REACH = 0.7  # radius of a control point's lens, of half the patch's side


def deform(v: Tensor, u: Tensor, lesions: Lesions) -> tuple[Tensor, Tensor]:
    """All three, in the order bulge, fisheye, wave, each only where it has any strength."""
    steps = (
        (bulge, lesions.bulge > 0, (lesions.bulge,)),
        (fisheye, (lesions.fisheye > 0).any(1), (lesions.points, lesions.fisheye)),
        (wave, lesions.wave > 0, (lesions.points, lesions.lengths, lesions.wave)),
    )
    v, u = v.contiguous(), u.contiguous()
    for warp, wanted, parameters in steps:
        rows = torch.nonzero(wanted)[:, 0]
        if len(rows):
            v[rows], u[rows] = warp(v[rows], u[rows], *(p[rows] for p in parameters))
    return v, u


def fisheye(v: Tensor, u: Tensor, points: Tensor, strength: Tensor) -> tuple[Tensor, Tensor]:
    """A lens at each control point. points (L, c, 2) as (v, u); strength (L, c) in 0..0.95, 0 leaves all in place.

    At distance r of a point (in units of REACH) a pixel is read from r (1 - s (1 - r^2)): magnified at the point, in
    place from r = 1 on, and never folded for s < 1. The lenses follow one another.
    """
    for i in range(points.shape[1]):
        dv = v - points[:, i, 0, None, None]
        du = u - points[:, i, 1, None, None]
        pull = (1 - (dv * dv + du * du) / REACH**2).clamp_(min=0) * strength[:, i, None, None]
        v, u = v - dv * pull, u - du * pull
    return v, u


def wave(v: Tensor, u: Tensor, points: Tensor, lengths: Tensor, amplitude: Tensor) -> tuple[Tensor, Tensor]:
    """Rows slide sideways along a wave. points (L, c, 2), lengths (L, c) in box units, amplitude (L,) of the side.

    Each control point sets phase and wavelength near its own height, with weights exp(-(v - v_i)^2 / 0.18):
    u + 2 A sum_i w_i sin(2 pi (v - v_i) / lambda_i) / sum_i w_i.
    """
    away = v[:, None] - points[:, :, 0, None, None]
    # the floor keeps the weights from vanishing together far from every point
    weight = torch.exp(-away.square() / 0.18) + 1e-3
    sines = torch.sin(2 * math.pi * away / lengths[:, :, None, None])
    slide = (weight * sines).sum(1) / weight.sum(1)
    return v, u + 2 * amplitude[:, None, None] * slide


def bulge(v: Tensor, u: Tensor, strength: Tensor) -> tuple[Tensor, Tensor]:
    """The whole lesion swells: a lens of radius one at its middle. strength (L,) in 0..0.95."""
    pull = 1 - (1 - v * v - u * u).clamp_(min=0) * strength[:, None, None]
    return v * pull, u * pull


def shade(v: Tensor, u: Tensor, strength: Tensor, angle: Tensor) -> Tensor:
    """Light on a dome, a factor (L, H, W): brighter towards `angle` (L,) and at the top, darker at the rim."""
    s, a = strength[:, None, None], angle[:, None, None]
    light = torch.cos(a) * u + torch.sin(a) * v
    return (1 + s * (light + 0.5 * (1 - 2 * (v * v + u * u)))).clamp_(min=0)

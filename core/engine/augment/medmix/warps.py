"""Where each pixel of a patch is read: fisheye, horizontal wave (Sec. MedMix) and bulge, in box coordinates (-1..1).

Each takes and returns the coordinates v, u (L, H, W) at which the donor is read, and draws nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from core.engine.augment.medmix.groups import Group

REACH = 0.7  # radius of a control point's lens, of half the patch's side


def deform(group: Group) -> tuple[Tensor, Tensor]:
    """Where each pixel of a group's windows is read, v and u (L, W, W): bulge, then fisheye, then wave."""
    it = group.lesions
    size = (-1, group.window, group.window)
    v, u = group.v[:, :, None].expand(size).contiguous(), group.u[:, None, :].expand(size).contiguous()
    if group.bulge is not None:
        r = group.bulge
        v[r], u[r] = bulge(v[r], u[r], it.bulge[r])
    if group.fisheye is not None:
        r = group.fisheye
        v[r], u[r] = fisheye(v[r], u[r], it.points[r], it.fisheye[r])
    if group.wave is not None:
        r = group.wave
        v[r], u[r] = wave(v[r], u[r], it.points[r], it.lengths[r], it.wave[r])
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

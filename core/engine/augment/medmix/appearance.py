"""The appearance of pasted lesions: outline, deformation, drawn tissue, light, visibility and Poisson blending."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.colour import hashed_normal
from core.engine.augment.medmix.groups import Group, Which

HARMONICS = 6


def outline(u: np.ndarray, irregularity: float) -> np.ndarray:
    """Converts uniform draws u (..., 2 * HARMONICS) to amplitudes (..., 2, HARMONICS) of an irregular outline's radius.

    These are cosine amplitudes a and sine amplitudes b. The radius, (1 + sum_j a_j cos j t + b_j sin j t) divided by
    (1 + sum_j sqrt(a_j^2 + b_j^2)), keeps a blob in its box; amplitudes that fall as 1 / (1 + j) keep it in one piece.
    """
    fall = 0.45 * irregularity / (1 + np.arange(1, HARMONICS + 1, dtype=np.float32))
    return (2 * u - 1).reshape(*u.shape[:-1], 2, HARMONICS) * fall


def depth(v: Tensor, u: Tensor, outlines: Tensor, shapes: Mapping[str, Which]) -> Tensor:
    """Computes the depth of each pixel in its lesion, (L, H, W): 1 in the centre, 0 on the outline, negative outside.

    v (L, H), u (L, W): box coordinates, -1 to 1 inside; outlines: see `outline`; shapes: the lesions of each shape.
    """
    v, u = v[:, :, None], u[:, None, :]
    deep = torch.empty(len(v), v.shape[1], u.shape[2], dtype=v.dtype, device=v.device)
    for shape, r in shapes.items():
        if r is None:
            continue
        if shape == "rectangle":
            deep[r] = 1 - torch.maximum(v[r].abs(), u[r].abs())
        else:
            distance = torch.sqrt(v[r] * v[r] + u[r] * u[r]).clamp_(min=1e-6)
            reach = 1.0 if shape == "ellipse" else _radius(v[r], u[r], distance, outlines[r])
            deep[r] = 1 - distance / reach
    return deep


def _radius(v: Tensor, u: Tensor, r: Tensor, waves: Tensor) -> Tensor:
    """Computes the radius of the outline in the direction of (v, u), a vector of length r; all (L, H, W)."""
    # cos j t and sin j t by recurrence: no arctangent, no trigonometry per pixel
    c1, s1 = u / r, v / r
    c, s, radius = c1, s1, torch.ones_like(r)
    cosines, sines = (a.unbind(1) for a in waves[..., None, None].unbind(1))
    for j in range(HARMONICS):
        radius.addcmul_(cosines[j], c).addcmul_(sines[j], s)
        if j + 1 < HARMONICS:
            c, s = (c * c1).addcmul_(s, s1, value=-1), (s * c1).addcmul_(c, s1)
    most = 1 + waves.square().sum(1).sqrt().sum(1)
    return radius / most.view(-1, 1, 1)


def coverage(depth: Tensor, softness: Tensor) -> Tensor:
    """Converts depth (L, H, W) to alpha in [0, 1], which rises smoothly over softness (L,), or abruptly if it is 0."""
    soft = softness.view(-1, 1, 1)
    ramp = (depth / soft.clamp(min=1e-6)).clamp_(0, 1)
    ramp = ramp * ramp * (3 - 2 * ramp)
    return torch.where(soft > 0, ramp, (depth > 0).to(depth.dtype))


# Where each pixel of a patch is read: fisheye, horizontal wave (Sec. MedMix) and bulge, in box coordinates (-1..1).
#
# Each function takes and returns the coordinates v, u (L, H, W) at which the donor is read; nothing is random.


REACH = 0.7  # radius of a control point's lens, of half the patch's side


def deform(group: Group) -> tuple[Tensor, Tensor]:
    """Returns the source coordinates v, u (L, W, W) of each window pixel of a group after bulge, fisheye and wave."""
    lesions = group.lesions
    size = (-1, group.window, group.window)
    v, u = group.v[:, :, None].expand(size).contiguous(), group.u[:, None, :].expand(size).contiguous()
    if group.bulge is not None:
        r = group.bulge
        v[r], u[r] = bulge(v[r], u[r], lesions.bulge[r])
    if group.fisheye is not None:
        r = group.fisheye
        v[r], u[r] = fisheye(v[r], u[r], lesions.points[r], lesions.fisheye[r])
    if group.wave is not None:
        r = group.wave
        v[r], u[r] = wave(v[r], u[r], lesions.points[r], lesions.lengths[r], lesions.wave[r])
    return v, u


def fisheye(v: Tensor, u: Tensor, points: Tensor, strength: Tensor) -> tuple[Tensor, Tensor]:
    """Magnifies around each control point: points (L, c, 2) as (v, u); strength s (L, c), 0 (no effect) to 0.95.

    A pixel at distance r from a point (in units of REACH) is read at r (1 - s (1 - r^2)): magnified at the point,
    unchanged from r = 1 on, and never folded for s < 1. The control points are applied one after another.
    """
    for at, s in zip(points[..., None, None].unbind(1), strength[..., None, None].unbind(1), strict=True):
        dv, du = v - at[:, 0], u - at[:, 1]
        pull = (1 - (dv * dv).addcmul_(du, du) / REACH**2).clamp_(min=0) * s
        v, u = v.addcmul(dv, pull, value=-1), u.addcmul(du, pull, value=-1)
    return v, u


def wave(v: Tensor, u: Tensor, points: Tensor, lengths: Tensor, amplitude: Tensor) -> tuple[Tensor, Tensor]:
    """Shifts rows sideways along a wave: points (L, c, 2), wavelengths (L, c) in box units, amplitude (L,) in sides.

    Each control point sets phase and wavelength near its height v_i, with weights w_i = exp(-(v - v_i)^2 / 0.18):
    u + 2 A sum_i w_i sin(2 pi (v - v_i) / lambda_i) / sum_i w_i.
    """
    away = v[:, None] - points[:, :, 0, None, None]
    # the floor keeps the weights from vanishing together far from every point
    weight = torch.exp(-away.square() / 0.18) + 1e-3
    sines = torch.sin(2 * math.pi * away / lengths[:, :, None, None])
    slide = (weight * sines).sum(1) / weight.sum(1)
    return v, u + 2 * amplitude.view(-1, 1, 1) * slide


def bulge(v: Tensor, u: Tensor, strength: Tensor) -> tuple[Tensor, Tensor]:
    """Magnifies the lesion around its centre, up to radius 1 in box coordinates; strength (L,), 0 to 0.95."""
    pull = 1 - (1 - v * v - u * u).clamp_(min=0) * strength.view(-1, 1, 1)
    return v * pull, u * pull


# What lesions are made of beyond the paper: drawn tissue, a made-up modality, light from one side.


OCTAVES = (3, 6, 12)  # cells across a patch, each octave half as strong as the one before


def drawn(seed: Tensor, contrast: Tensor, v: Tensor, u: Tensor, base: Tensor) -> Tensor:
    """Draws tissue (L, 3, H, W) of the colour `base` (L, 3), mottled by noise of three octaves.

    seed, contrast: (L,). v, u: (L, H, W), box coordinates at which the noise is read.
    """
    mottle, grid = torch.zeros_like(v)[:, None], torch.stack([u, v], -1)
    # knots by hashing, the same on every device; those of all octaves at once, which lie along the diagonal
    cells = [torch.arange(count, device=v.device) for count in OCTAVES]
    at = torch.cat([1000 * octave + cell for octave, cell in enumerate(cells, start=1)]).expand(len(seed), -1)
    knots = hashed_normal(seed, at, torch.cat(cells).expand(len(seed), -1), channels=1).clamp_(-2, 2)
    for octave, end in enumerate(np.cumsum(OCTAVES).tolist()):
        block = slice(end - OCTAVES[octave], end)
        read = F.grid_sample(knots[..., block, block], grid, padding_mode="reflection", align_corners=True)
        mottle.add_(read, alpha=0.5**octave)
    return base[:, :, None, None] * (1 + contrast.view(-1, 1, 1, 1) * mottle)


def other_modality(patch: Tensor, tone: Tensor) -> Tensor:
    """Imitates another modality: shuffles the channels and inverts half of the patches. tone: draws (L, 4)."""
    order = tone[:, :3].argsort(1)[:, :, None, None].expand_as(patch)
    patch = patch.gather(1, order)
    return torch.where((tone[:, 3] < 0.5)[:, None, None, None], 1 - patch, patch)


def shade(v: Tensor, u: Tensor, strength: Tensor, angle: Tensor) -> Tensor:
    """Computes the light on a dome as a factor (L, 1, H, W): brighter towards `angle` (L,) and in the centre.

    v (L, H), u (L, W): box coordinates; strength (L,); angle: in radians.
    """
    v, u = v[:, None, :, None], u[:, None, None, :]
    s, a = strength.view(-1, 1, 1, 1), angle.view(-1, 1, 1, 1)
    light = torch.cos(a) * u + torch.sin(a) * v
    return (1 + s * (light + 0.5 * (1 - 2 * (v * v + u * u)))).clamp_(min=0)


def strengthen(under: Tensor, patch: Tensor, cover: Tensor, contrast: float, area: int) -> Tensor:
    """Returns patches in which invisible lesions are just bright or dark enough to be visible: A_n must show n lesions.

    A lesion is visible if it changes the channels by `contrast` on average in `area` pixels. Otherwise it is mixed with
    white or black, whichever takes the smaller share, unless this cannot make it visible.
    under, patch: (L, 3, W, W) in [0, 1], the image and the pixels to blend in. cover: (L, 1, W, W), their weights.
    """
    cover = cover[:, 0]
    shows = (cover * (patch - under).abs().mean(1) >= contrast).sum((1, 2)) >= area
    background, level, least = under.mean(1), patch.mean(1), contrast / cover.clamp(min=1e-6)  # (L, W, W)
    white = ((background + least - level) / (1 - level).clamp(min=1e-6)).clamp(min=0)  # part that each pixel needs
    black = ((level - background + least) / level.clamp(min=1e-6)).clamp(min=0)
    needed = torch.stack([white, black]).flatten(2)
    white, black = needed.kthvalue(min(area, needed.shape[2])).values
    amount = torch.minimum(white, black)
    amount = torch.where(shows | (amount > 1), 0, amount).view(-1, 1, 1, 1)
    return torch.lerp(patch, (white <= black).to(patch.dtype).view(-1, 1, 1, 1).expand_as(patch), amount)


# Blending by gradients, for the blend `poisson`.


STEPS = 12  # of conjugate gradients; the guess they start from has the large scales right
LEAST = 6  # pixels; the coarsest level of the guess


def membrane(rim: Tensor, inside: Tensor) -> Tensor:
    """Fills the pixels `inside` with the harmonic function that continues the values of `rim` around them.

    rim: (L, C, H, W). inside: bool (L, H, W). Laplace's equation is solved approximately, by a few conjugate gradient
    steps from a coarse-to-fine guess; windows are extended by repeating their edges. Returns (L, C, H, W).
    """
    hole = inside[:, None].to(rim.dtype)
    field = torch.where(inside[:, None], _guess(rim, hole), rim)
    r = -_laplace(field) * hole  # residual
    p, rs = r, r.square().sum((2, 3), keepdim=True)  # direction, squared norm of the residual
    for _ in range(STEPS):
        Ap = _laplace(p) * hole
        step = rs / (p * Ap).sum((2, 3), keepdim=True).clamp(min=1e-12)
        field = field + step * p
        r = r - step * Ap
        before, rs = rs, r.square().sum((2, 3), keepdim=True)
        p = r + rs / before.clamp(min=1e-12) * p
    return field


def _laplace(z: Tensor) -> Tensor:
    p = F.pad(z, (1, 1, 1, 1), mode="replicate")
    return 4 * z - p[..., :-2, 1:-1] - p[..., 2:, 1:-1] - p[..., 1:-1, :-2] - p[..., 1:-1, 2:]


def _guess(rim: Tensor, hole: Tensor) -> Tensor:
    """Fills the hole with averages of the known pixels, from coarse to fine, with two Jacobi sweeps at each level."""
    known = 1 - hole
    if min(rim.shape[-2:]) <= LEAST:
        total = known.sum((2, 3), keepdim=True).clamp(min=1)
        guess = ((rim * known).sum((2, 3), keepdim=True) / total).expand_as(rim)
    else:
        half = ((rim.shape[-2] + 1) // 2, (rim.shape[-1] + 1) // 2)
        weight = F.adaptive_avg_pool2d(known, half)
        coarse = F.adaptive_avg_pool2d(rim * known, half) / weight.clamp(min=1e-6)
        guess = _guess(coarse, (weight <= 0).to(rim.dtype))
        guess = F.interpolate(guess, rim.shape[-2:], mode="bilinear", align_corners=False)
    field = torch.where(hole > 0, guess, rim)
    for _ in range(2):
        field = field - 0.25 * hole * _laplace(field)
    return field


def poisson(under: Tensor, over: Tensor, inside: Tensor) -> Tensor:
    """Blends `over` into `under` in the pixels `inside`, with the gradients of `over` and no visible seam.

    This is seamless cloning (Perez et al. 2003). under, over: (L, C, H, W). inside: bool (L, H, W). The result is the
    sum of `over` and the `membrane` of `under - over`.
    """
    return over + membrane(under - over, inside)

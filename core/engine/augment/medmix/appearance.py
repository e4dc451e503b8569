"""Functions for the look of pasted lesions: outline, deformation, drawn tissue, light, visibility, Poisson blending."""

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
    """Converts uniform draws u `(..., 2 * HARMONICS)` to amplitudes `(..., 2, HARMONICS)` of an irregular outline.

    These are cosine amplitudes a_j and sine amplitudes b_j. In the direction t, the outline's radius is (1 + sum_j a_j
    cos j t + b_j sin j t) / (1 + sum_j sqrt(a_j^2 + b_j^2)), so that the blob fits into its box. The amplitudes
    decrease as 1 / (1 + j), so that the blob is one piece.
    """
    fall = 0.45 * irregularity / (1 + np.arange(1, HARMONICS + 1, dtype=np.float32))
    return (2 * u - 1).reshape(*u.shape[:-1], 2, HARMONICS) * fall


def depth(v: Tensor, u: Tensor, outlines: Tensor, shapes: Mapping[str, Which]) -> Tensor:
    """Computes the depth `(L, H, W)` of each pixel in its lesion: 1 in the centre, 0 on the outline, negative outside.

    Args:
        v: Vertical box coordinates `(L, H)`, -1 to 1 inside the box.
        u: Horizontal box coordinates `(L, W)`, -1 to 1 inside the box.
        outlines: Amplitudes of irregular outlines, see `outline`.
        shapes: Indices of the lesions with each shape, by name of the shape.
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
    """Computes the radius of the outline in the direction of (v, u), a vector of length r; all `(L, H, W)`."""
    # cos j t and sin j t are computed by recurrence, which avoids trigonometric functions for each pixel.
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
    """Converts depths `(L, H, W)` to weights that rise smoothly from 0 at the outline to 1 at the depth `softness`."""
    soft = softness.view(-1, 1, 1)
    ramp = (depth / soft.clamp(min=1e-6)).clamp_(0, 1)
    ramp = ramp * ramp * (3 - 2 * ramp)
    return torch.where(soft > 0, ramp, (depth > 0).to(depth.dtype))


REACH = 0.7  # radius of a control point's lens in box coordinates, which run from -1 to 1


def deform(group: Group) -> tuple[Tensor, Tensor]:
    """Returns the source coordinates v, u `(L, W, W)` from which each pixel of a group's windows is taken.

    They are the pixel's box coordinates after the deformations bulge, fisheye and wave.
    """
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
    """Magnifies around each control point, one point after another (Sec. MedMix), and returns the new v and u.

    A pixel at distance r from a point (in units of REACH) is taken from the distance r (1 - s (1 - r^2)). The image is
    magnified at the point, unchanged where r >= 1, and does not fold for s < 1.

    Args:
        v, u: Vertical and horizontal box coordinates `(L, H, W)`.
        points: Coordinates (v, u) of the control points `(L, c, 2)`.
        strength: Strength s at each point `(L, c)`, 0 (no effect) to 0.95.
    """
    for at, s in zip(points[..., None, None].unbind(1), strength[..., None, None].unbind(1), strict=True):
        dv, du = v - at[:, 0], u - at[:, 1]
        pull = (1 - (dv * dv).addcmul_(du, du) / REACH**2).clamp_(min=0) * s
        v, u = v.addcmul(dv, pull, value=-1), u.addcmul(du, pull, value=-1)
    return v, u


def wave(v: Tensor, u: Tensor, points: Tensor, lengths: Tensor, amplitude: Tensor) -> tuple[Tensor, Tensor]:
    """Shifts each row sideways, following a wave over v (Sec. MedMix), and returns the new v and u.

    Each control point determines phase and wavelength near its v_i, with weights w_i = exp(-(v - v_i)^2 / 0.18). The
    new u is u + 2 A sum_i w_i sin(2 pi (v - v_i) / lambda_i) / sum_i w_i.

    Args:
        v, u: Vertical and horizontal box coordinates `(L, H, W)`.
        points: Coordinates (v, u) of the control points `(L, c, 2)`.
        lengths: Wavelengths lambda_i in box coordinates `(L, c)`.
        amplitude: Amplitude A, relative to the box's side, `(L,)`.
    """
    away = v[:, None] - points[:, :, 0, None, None]
    # The floor keeps the sum of the weights above 0 far from all points.
    weight = torch.exp(-away.square() / 0.18) + 1e-3
    sines = torch.sin(2 * math.pi * away / lengths[:, :, None, None])
    slide = (weight * sines).sum(1) / weight.sum(1)
    return v, u + 2 * amplitude.view(-1, 1, 1) * slide


def bulge(v: Tensor, u: Tensor, strength: Tensor) -> tuple[Tensor, Tensor]:
    """Magnifies each lesion around its centre, within radius 1 in box coordinates, by `strength` `(L,)`, 0 to 0.95."""
    pull = 1 - (1 - v * v - u * u).clamp_(min=0) * strength.view(-1, 1, 1)
    return v * pull, u * pull


OCTAVES = (3, 6, 12)  # number of noise knots across a patch; each octave is half as strong as the one before


def draw_texture(seed: Tensor, contrast: Tensor, v: Tensor, u: Tensor, base: Tensor) -> Tensor:
    """Draws artificial tissue `(L, 3, H, W)` with mean colour `base` `(L, 3)`, mottled by noise of three octaves.

    The noise depends on `seed` `(L,)`, has the strength `contrast` `(L,)` and is evaluated at the box coordinates v and
    u `(L, H, W)`. The paper does not use artificial tissue.
    """
    mottle, grid = torch.zeros_like(v)[:, None], torch.stack([u, v], -1)
    # Hashing gives the same knots on every device. The knots of all octaves are blocks along a diagonal.
    cells = [torch.arange(count, device=v.device) for count in OCTAVES]
    at = torch.cat([1000 * octave + cell for octave, cell in enumerate(cells, start=1)]).expand(len(seed), -1)
    knots = hashed_normal(seed, at, torch.cat(cells).expand(len(seed), -1), channels=1).clamp_(-2, 2)
    for octave, end in enumerate(np.cumsum(OCTAVES).tolist()):
        block = slice(end - OCTAVES[octave], end)
        read = F.grid_sample(knots[..., block, block], grid, padding_mode="reflection", align_corners=True)
        mottle.add_(read, alpha=0.5**octave)
    return base[:, :, None, None] * (1 + contrast.view(-1, 1, 1, 1) * mottle)


def other_modality(patch: Tensor, tone: Tensor) -> Tensor:
    """Imitates another modality: shuffles the channels of each patch and inverts half of the patches.

    `tone` `(L, 4)` holds uniform random numbers in [0, 1).
    """
    order = tone[:, :3].argsort(1)[:, :, None, None].expand_as(patch)
    patch = patch.gather(1, order)
    return torch.where((tone[:, 3] < 0.5)[:, None, None, None], 1 - patch, patch)


def shade(v: Tensor, u: Tensor, strength: Tensor, angle: Tensor) -> Tensor:
    """Computes brightness factors `(L, 1, H, W)` of a lit dome, larger in the centre and on the side facing the light.

    The light has the strength `strength` `(L,)` and comes from the direction `angle` `(L,)` in radians. Box coordinates
    are v `(L, H)` and u `(L, W)`.
    """
    v, u = v[:, None, :, None], u[:, None, None, :]
    s, a = strength.view(-1, 1, 1, 1), angle.view(-1, 1, 1, 1)
    light = torch.cos(a) * u + torch.sin(a) * v
    return (1 + s * (light + 0.5 * (1 - 2 * (v * v + u * u)))).clamp_(min=0)


def strengthen(under: Tensor, patch: Tensor, cover: Tensor, contrast: float, area: int) -> Tensor:
    """Makes invisible lesions visible by mixing in just enough white or black; returns the patches.

    Class A_n must show n lesions. A lesion is visible if at least `area` pixels change by `contrast`, averaged over
    channels. An invisible lesion is mixed with white or black, whichever changes it less, unless neither can make it
    visible.

    Args:
        under: Image below the lesions `(L, 3, W, W)` in [0, 1].
        patch: Pixels of the lesions `(L, 3, W, W)` in [0, 1].
        cover: Weight of the lesion in each pixel `(L, 1, W, W)`.
        contrast: Smallest visible change of a pixel, 0 to 1.
        area: Smallest number of pixels that must change.
    """
    cover = cover[:, 0]
    shows = (cover * (patch - under).abs().mean(1) >= contrast).sum((1, 2)) >= area
    background, level, least = under.mean(1), patch.mean(1), contrast / cover.clamp(min=1e-6)  # (L, W, W)
    white = ((background + least - level) / (1 - level).clamp(min=1e-6)).clamp(min=0)  # fraction that each pixel needs
    black = ((level - background + least) / level.clamp(min=1e-6)).clamp(min=0)
    needed = torch.stack([white, black]).flatten(2)
    white, black = needed.kthvalue(min(area, needed.shape[2])).values
    amount = torch.minimum(white, black)
    amount = torch.where(shows | (amount > 1), 0, amount).view(-1, 1, 1, 1)
    return torch.lerp(patch, (white <= black).to(patch.dtype).view(-1, 1, 1, 1).expand_as(patch), amount)


STEPS = 12  # number of conjugate gradient steps; few are enough, because the guess has the large scales right
LEAST = 6  # side in pixels of the coarsest level of the guess


def membrane(rim: Tensor, inside: Tensor) -> Tensor:
    """Fills the pixels `inside`, bool `(L, H, W)`, with the harmonic function that continues the surrounding values.

    Laplace's equation is solved approximately: a few conjugate gradient steps follow a coarse-to-fine guess. Windows
    are extended by repeating their edges. `rim` `(L, C, H, W)` holds the surrounding values and has the result's shape.
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
    """Blends patches `over` into images `under`, both `(L, C, H, W)`, in the pixels `inside`, bool `(L, H, W)`.

    This is seamless cloning (Perez et al. 2003), which keeps the patches' gradients: the result is the sum of `over`
    and the `membrane` of `under - over`.
    """
    return over + membrane(under - over, inside)

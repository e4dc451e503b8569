"""The outline of a lesion: how deep within its box each pixel lies, and so how much of it is lesion."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from core.engine.augment.medmix.groups import Which

HARMONICS = 6


def outline(u: Tensor, irregularity: float) -> Tensor:
    """Even draws (..., 2 * HARMONICS) -> cosine and sine amplitudes (..., 2, HARMONICS) of the outline's radius.

    The radius is (1 + sum_j a_j cos j t + b_j sin j t) / (1 + sum_j |c_j|), so a blob stays in its box; amplitudes fall
    as 1 / (1 + j) and their sum stays below one, so it stays in one piece.
    """
    raw = (2 * u - 1).view(*u.shape[:-1], 2, HARMONICS)
    fall = 1 / (1 + torch.arange(1, HARMONICS + 1, dtype=u.dtype))
    return raw * (0.45 * irregularity * fall)


def depth(v: Tensor, u: Tensor, outlines: Tensor, shapes: Mapping[str, Which]) -> Tensor:
    """How deep each pixel lies in its lesion, (L, H, W): 1 in the middle, 0 on the outline, negative outside.

    v (L, H), u (L, W): box coordinates, -1..1 inside; outlines (L, 2, HARMONICS); shapes: which lesions have which.
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
    """Radius of the outline in the direction of (v, u), at distance r; all (L, H, W)."""
    # cos j t and sin j t by recurrence: no arctangent, no trigonometry per pixel
    c1, s1 = u / r, v / r
    c, s = c1, s1
    radius = torch.ones_like(r)
    for j in range(HARMONICS):
        radius += waves[:, 0, j, None, None] * c + waves[:, 1, j, None, None] * s
        if j + 1 < HARMONICS:
            c, s = c * c1 - s * s1, s * c1 + c * s1
    most = 1 + waves.square().sum(1).sqrt().sum(1)
    return radius / most[:, None, None]


def coverage(depth: Tensor, softness: Tensor) -> Tensor:
    """depth (L, H, W), softness (L,) -> alpha in [0, 1], rising smoothly over `softness`; a step where that is 0."""
    soft = softness[:, None, None]
    ramp = (depth / soft.clamp(min=1e-6)).clamp_(0, 1)
    ramp = ramp * ramp * (3 - 2 * ramp)
    return torch.where(soft > 0, ramp, (depth > 0).to(depth.dtype))

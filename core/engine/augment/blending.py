"""How a lesion joins the image: pasted, mixed in, or joined by its gradients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

SWEEPS = 8  # Jacobi sweeps per level
LEAST = 6  # pixels; the coarsest level of the pyramid


def mix(under: Tensor, over: Tensor, alpha: Tensor) -> Tensor:
    """under, over (L, 3, H, W), alpha (L, H, W) -> under where alpha is 0, over where it is 1."""
    return torch.lerp(under, over, alpha[:, None])


def membrane(rim: Tensor, inside: Tensor) -> Tensor:
    """The harmonic function within `inside` that continues `rim` from outside.

    rim (L, C, H, W): values known outside; inside bool (L, H, W): where they are sought. Laplace's equation, Jacobi
    sweeps from coarse to fine (the coarse solution is the fine one's first guess). Edges of the window repeat.
    """
    hole = inside[:, None]
    height, width = rim.shape[-2:]
    if min(height, width) > LEAST:
        half = ((height + 1) // 2, (width + 1) // 2)
        known = (~hole).to(rim.dtype)
        weight = F.adaptive_avg_pool2d(known, half)
        coarse = F.adaptive_avg_pool2d(rim * known, half) / weight.clamp(min=1e-6)
        guess = membrane(coarse, (weight <= 0)[:, 0])
        guess = F.interpolate(guess, (height, width), mode="bilinear", align_corners=False)
    else:
        known = (~hole).to(rim.dtype)
        total = known.sum((2, 3), keepdim=True).clamp(min=1)
        guess = ((rim * known).sum((2, 3), keepdim=True) / total).expand_as(rim)
    field = torch.where(hole, guess, rim)
    for _ in range(SWEEPS):
        p = F.pad(field, (1, 1, 1, 1), mode="replicate")
        mean = 0.25 * (p[..., :-2, 1:-1] + p[..., 2:, 1:-1] + p[..., 1:-1, :-2] + p[..., 1:-1, 2:])
        field = torch.where(hole, mean, rim)
    return field


def poisson(under: Tensor, over: Tensor, inside: Tensor) -> Tensor:
    """The gradients of `over` within `inside`, the values of `under` around it (Perez et al. 2003, seamless cloning).

    The solution is `over` plus the membrane spanned by `under - over` on the rim.
    """
    return over + membrane(under - over, inside)

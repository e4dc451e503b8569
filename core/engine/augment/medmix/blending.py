"""How a lesion is joined to the image by its gradients, for the blend `poisson`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

STEPS = 12  # of conjugate gradients; the guess they start from has the large scales right
LEAST = 6  # pixels; the coarsest level of the guess


def membrane(rim: Tensor, inside: Tensor) -> Tensor:
    """The harmonic function within `inside` that continues `rim` from outside.

    rim (L, C, H, W): values known outside; inside bool (L, H, W): where they are sought. Laplace's equation by a few
    conjugate gradients from a guess made coarse to fine. Beyond the window its edge repeats.
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
    """Averages of what is known, handed down from coarse to fine, two Jacobi sweeps each."""
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
    """The gradients of `over` within `inside`, the values of `under` around it (Perez et al. 2003, seamless cloning).

    The solution is `over` plus the membrane spanned by `under - over` on the rim.
    """
    return over + membrane(under - over, inside)

"""The centres c_n of the classes A_n (Eq. 2; the four kinds of Sec. Centering Strategies)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor


@torch.no_grad()
def estimate_centres(
    features: Callable[[Tensor], Tensor], batches: Iterable[tuple[Tensor, Tensor]], count: int
) -> Tensor:
    """Estimates the centres c_n = E f_theta(a(x)), a ~ A_n: the mean feature of each class (Eq. 2).

    features: (M, 3, S, S) -> (M, D). batches: pairs of images (M, 3, S, S) and their classes (M,).
    Returns float32 (count, D). Sums are in float64, so that the result does not depend on batch size and order.
    Raises ValueError if a class has no image.
    """
    total, counts = None, torch.zeros(count, dtype=torch.float64)
    for images, labels in batches:
        z = features(images).double()
        one_hot = torch.nn.functional.one_hot(labels.to(z.device), count).double()  # (M, count)
        total = one_hot.T @ z if total is None else total + one_hot.T @ z
        counts += one_hot.sum(0).cpu()
    if total is None or bool((counts == 0).any()):
        raise ValueError("a class without a single image has no centre; give more images")
    return (total / counts.to(total.device)[:, None]).float()


def random_centres(count: int, dim: int, scale: float, generator: torch.Generator) -> Tensor:
    """Draws centres (count, dim) with normally distributed coordinates of standard deviation `scale`."""
    return torch.randn((count, dim), generator=generator) * scale


def equidistant_centres(count: int, dim: int, scale: float, generator: torch.Generator) -> Tensor:
    """Draws centres (count, dim) that are equally far from each other.

    They are the corners of a regular simplex around the origin, randomly rotated, each at distance `scale` from the
    origin and scale * sqrt(2 count / (count - 1)) from each other. Raises ValueError unless dim >= count >= 2.
    """
    if not 2 <= count <= dim:
        raise ValueError(
            f"{count} equidistant centres need a space of at least {count} dimensions, and at least two centres"
        )
    frame = torch.linalg.qr(torch.randn((dim, count), generator=generator, dtype=torch.float64)).Q.T  # orthonormal rows
    corners = frame - frame.mean(0)
    return (scale * torch.nn.functional.normalize(corners, dim=1)).float()

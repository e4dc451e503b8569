"""The centres c_n of the classes A_n (Eq. 2; four kinds, Sec. Centering Strategies)."""

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
    Returns (count, D) float32; sums are kept in float64, so neither batch size nor order matters to the result.
    Raises ValueError if a class never occurs.
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
    """Draws centres (count, dim), each coordinate from a normal distribution of standard deviation `scale`."""
    return torch.randn((count, dim), generator=generator) * scale


def equidistant_centres(count: int, dim: int, scale: float, generator: torch.Generator) -> Tensor:
    """Draws centres (count, dim) that are equally far from one another.

    They are the corners of a regular simplex around the origin, turned at random, `scale` from the origin each.
    Every two of them are scale * sqrt(2 count / (count - 1)) apart. Raises ValueError unless dim >= count >= 2.
    """
    if not 2 <= count <= dim:
        raise ValueError(
            f"{count} equidistant centres need a space of at least {count} dimensions, and at least two centres"
        )
    frame = torch.linalg.qr(torch.randn((dim, count), generator=generator, dtype=torch.float64)).Q.T  # orthonormal rows
    corners = frame - frame.mean(0)
    return (scale * torch.nn.functional.normalize(corners, dim=1)).float()

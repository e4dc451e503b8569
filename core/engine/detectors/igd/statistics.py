"""What IGD estimates over all its items, block by block: memory is that of one block, however many images there are."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from core.engine.detectors.igd.losses import pushed


def feature_scale(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Features (n, F) block by block -> their mean (F,) and 1 / root of the mean variance, a scalar."""
    count, mean, scatter = 0, torch.zeros(()), torch.zeros(())
    for h in blocks:  # merged after Chan, Golub and LeVeque (1983)
        own = h.double()
        step = own.mean(0) - mean
        scatter = scatter + (own - own.mean(0)).square().sum(0) + step.square() * (count * len(h) / (count + len(h)))
        mean = mean + step * (len(h) / (count + len(h)))
        count += len(h)
    return mean.float(), (1 / (scatter / count).mean().sqrt().clamp(min=1e-6)).float()


def classifier(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Codes (n, D) block by block -> centre (D,) and sigma, as `losses.centre_of` and `losses.sigma_of` of all give.

    A block's mean |z - c|^2 is that of |z|^2, less 2 c z, plus |c|^2; so one pass finds both, in float64.
    """
    means, squares, counts = [], [], []
    for z in blocks:
        own = z.double()
        means.append(own.mean(0))
        squares.append(own.square().sum(1).mean())
        counts.append(len(z))
    weights = torch.tensor(counts, dtype=torch.double, device=means[0].device)
    centre = pushed(((weights[:, None] * torch.stack(means)).sum(0) / weights.sum()).float())
    c = centre.double()
    away = torch.stack(squares) - 2 * torch.stack(means) @ c + c.square().sum()
    return centre, away.clamp(min=1).mean().float()

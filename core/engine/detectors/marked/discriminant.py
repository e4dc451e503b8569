"""A linear discriminant of lesion cells from all others, in closed form, from moments that are summed batch by batch.

Three groups have an equal say: cells of normal images, cells of marked images outside the mask, and cells inside it.
Within the last two each image has an equal say, so that a large lesion does not drown a small one. The weights are
those of ridge regression on standardised features with target 1 for lesion cells and 0 for the others, which are
those of Fisher's discriminant on a shrunk covariance (Hastie, Tibshirani and Friedman, The Elements of Statistical
Learning, exercise 4.2 and section 4.3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Moments:
    """Weighted sums of features (D,) and of their outer products (D, D), float64; memory does not grow with cells."""

    weight: float
    sum: Tensor
    outer: Tensor

    @classmethod
    def empty(cls, channels: int) -> Moments:
        return cls(
            0.0, torch.zeros(channels, dtype=torch.float64), torch.zeros(channels, channels, dtype=torch.float64)
        )

    def add(self, cells: Tensor, weight: float) -> None:
        """cells (N, D), that together weigh `weight`; none of them adds nothing."""
        if len(cells):
            x = cells.double().cpu()
            each = weight / len(x)
            self.weight += weight
            self.sum = self.sum + each * x.sum(0)
            self.outer = self.outer + each * x.T @ x

    @classmethod
    def total(cls, parts: Sequence[Moments]) -> Moments:
        """Those of all parts' cells together; at least one part."""
        weight = sum(part.weight for part in parts)
        return cls(weight, torch.stack([p.sum for p in parts]).sum(0), torch.stack([p.outer for p in parts]).sum(0))


@dataclass
class Discriminant:
    """Cells x (..., D) score (x - middle) @ weights; larger is more like a lesion. float32."""

    weights: Tensor
    middle: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.middle) @ self.weights


def discriminant(normal: Moments, healthy: Moments, lesion: Moments, shrinkage: float) -> Discriminant:
    """Of cells of normal images, of healthy and of lesion cells of marked images. shrinkage > 0: the ridge, in units of
    a standardised feature's variance. A group without a cell has no say; ValueError if there is no lesion cell.
    """
    if not lesion.weight:
        raise ValueError("a discriminant takes at least one lesion cell")
    groups = [(part.sum / part.weight, part.outer / part.weight) for part in (normal, healthy, lesion) if part.weight]
    middle = torch.stack([mean for mean, _ in groups]).mean(0)
    covariance = torch.stack([second for _, second in groups]).mean(0) - middle[:, None] * middle
    deviation = covariance.diagonal().clamp_min(0).sqrt()
    deviation = torch.where(deviation > 1e-6 * deviation.max().clamp_min(1e-12), deviation, torch.inf)  # never varies
    correlation = covariance / deviation[:, None] / deviation
    correlation.diagonal().add_(shrinkage)
    towards = (groups[-1][0] - middle) / len(groups) / deviation
    lower = torch.linalg.cholesky(correlation)
    weights = torch.cholesky_solve(towards[:, None], lower)[:, 0] / deviation
    return Discriminant(weights.float(), middle.float())

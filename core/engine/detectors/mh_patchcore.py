"""MH-PatchCore (Ferrari et al. 2026, "Mahalanobis PatchCore: Covariance-Aware and Streaming-Compatible Industrial
Anomaly Detection").

PatchCore in a space in which normal patches vary alike in all directions: their principal components, as many as
explain 99 % of the variance, each divided by its deviation, after the covariance was shrunk by 0.07 towards a multiple
of the identity. The memory holds 1,000 patches, distances are squared, and the score is re-weighted by nine neighbours.

Ours: mean and covariance of all patches are summed in one pass, from which components and whitening follow exactly,
where the paper passes three times (incremental components, covariance, memory); the memory is a coreset of a pool drawn
evenly from all images, where the paper merges and thins blocks of 256; patches are those of `nearest`, not brought to
1,024 values first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.engine.config import BadConfig
from core.engine.detectors.nearest.memory import NearestFitting
from core.engine.detectors.nearest.nearest import Nearest, NearestConfig
from core.engine.registry import DETECTORS


@dataclass(frozen=True)
class MHPatchCoreConfig(NearestConfig):
    """variance: share of it that the components explain. shrinkage: of the covariance, towards a multiple of the
    identity. position and balance have no part in it.
    """

    patches: int = 1000
    variance: float = 0.99
    shrinkage: float = 0.07

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.variance <= 1 or not 0 <= self.shrinkage <= 1:
            raise BadConfig("variance is above 0 and at most 1, shrinkage from 0 to 1")


class WhitenedFitting(NearestFitting):
    """The fit in progress: beside the pool, sums of all patches, from which the whitening follows."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.count, self.sum, self.products = 0, torch.zeros(()), torch.zeros(())

    def take(self, features: Tensor, row: int, inside: np.ndarray | None) -> None:
        super().take(features, row, inside)
        x = features[:, :-2] if inside is None or not inside.any() else features[torch.from_numpy(inside), :-2]
        x = x.double()
        self.count, self.sum, self.products = self.count + len(x), x.sum(0) + self.sum, x.T @ x + self.products

    def scales(self, features: Tensor) -> Tensor:
        mean = self.sum / self.count
        covariance = (self.products - self.count * torch.outer(mean, mean)) / max(self.count - 1, 1)
        matrix = whitening(covariance, self.config.variance, self.config.shrinkage)
        return torch.cat([matrix, matrix.new_zeros(2, matrix.shape[1])]).to(features)  # the place has no part


def whitening(covariance: Tensor, variance: float, shrinkage: float) -> Tensor:
    """Computes a whitening matrix (D, K) of a covariance (D, D).

    Patches times it have, but for the shrinkage, the identity as covariance. K: of the components with the most
    variance, as few as explain that share of it.
    """
    values, vectors = (x.flip(-1) for x in torch.linalg.eigh(covariance))
    values = values.clamp(min=0)
    explained = values.cumsum(0) / values.sum().clamp(min=1e-12)
    leading = values[: min(int((explained < variance - 1e-12).sum()) + 1, len(values))]
    shrunk = (1 - shrinkage) * leading + shrinkage * leading.mean()
    return vectors[:, : len(leading)] / shrunk.clamp(min=1e-8 * leading.mean().clamp(min=1e-12)).sqrt()


@DETECTORS.register("mh-patchcore", title="MH-PatchCore", compares=True, section="Ferrari et al. 2026")
class MHPatchCore(Nearest):
    """The MH-PatchCore detector. `distance` of its extras is squared."""

    name = "mh-patchcore"
    Config = MHPatchCoreConfig
    Fitting = WhitenedFitting
    power = 2
    presets = {"paper": MHPatchCoreConfig(), "quick": MHPatchCoreConfig()}

"""Normal images that a detector never sees, and the scale that they give its scores and maps: mean 0, deviation 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

from core.engine.config import Config


@dataclass(frozen=True)
class Scale(Config):
    """Mean and standard deviation of scores, or of a map's cells, over unseen normal images."""

    mean: float = 0.0
    sd: float = 1.0

    @classmethod
    def of(cls, values: np.ndarray) -> Self:
        """Computes the scale of values of any shape; the deviation is at least 1e-6, for it is divided by."""
        return cls(float(np.mean(values)), max(1e-6, float(np.std(values))))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Values in standard deviations from the mean of unseen normal images."""
        return (values - self.mean) / self.sd


def places_unseen(
    count: int, share: float, seed: int, patients: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Splits `count` images: indices of those that members are fitted on, and of those, 4 or more, that they never see.

    patients (count,): whose image each is. Raises ValueError under 16 images.
    """
    if count < 16:
        raise ValueError(f"several detectors together take at least 16 normal images; there are {count}")
    return leave_out(count, max(4, round(share * count)), seed, patients)


def leave_out(count: int, least: int, seed: int, patients: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Chooses at random which of `count` images to leave out: (indices kept, indices left out), ascending.

    `least` images are left out. Where patients (count,) are given, whole ones are, as few as have that many images,
    unless that would be more than half of all.
    """
    draw = np.random.default_rng(seed)
    order = draw.permutation(count)
    out = np.sort(order[:least])
    if patients is not None and least:
        _, whose, sizes = np.unique(patients, return_inverse=True, return_counts=True)
        drawn = draw.permutation(len(sizes))
        whole = drawn[: int(np.searchsorted(np.cumsum(sizes[drawn]), least)) + 1]
        if 2 * sizes[whole].sum() <= count:
            out = np.flatnonzero(np.isin(whose, whole))
    return np.setdiff1d(order, out), out

"""Choice of held-out normal images, and standardisation of scores and maps by statistics over these images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from typing_extensions import Self

from core.engine.config import Config

if TYPE_CHECKING:
    from torch import Tensor

Values = TypeVar("Values", np.ndarray, "Tensor")
LEAST = 16  # smallest number of images from which some can be held out


@dataclass(frozen=True)
class Scale(Config):
    """Mean and standard deviation of scores, or of map values, on held-out normal images."""

    mean: float = 0.0
    sd: float = 1.0

    @classmethod
    def of(cls, values: np.ndarray) -> Self:
        """Computes the scale from values of any shape. The standard deviation is set to at least 1e-6."""
        return cls(float(np.mean(values)), max(1e-6, float(np.std(values))))

    def __call__(self, values: Values) -> Values:
        """Standardises an array or a tensor by the mean and the standard deviation."""
        return (values - self.mean) / self.sd


def split_unseen(
    count: int, share: float, seed: int, patients: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Splits `count` images at random into images for fitting and at least 4 held-out images; returns their indices.

    A fraction `share` is held out, as by `leave_out`. Raises ValueError for fewer than LEAST images.
    """
    if count < LEAST:
        raise ValueError(f"an ensemble needs at least {LEAST} normal images; there are {count}")
    return leave_out(count, max(4, round(share * count)), seed, patients)


def leave_out(count: int, least: int, seed: int, patients: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Holds out at least `least` of `count` images at random; returns the indices of the other and the held-out images.

    If `patients` `(count,)` are given, all images of randomly chosen patients are held out. If these were more than
    half of all images, single images are held out instead.
    """
    draw = np.random.default_rng(seed)
    order = draw.permutation(count)
    out = np.sort(order[:least])
    if patients is not None and least:
        _, owners, sizes = np.unique(patients, return_inverse=True, return_counts=True)
        patient_order = draw.permutation(len(sizes))
        held_out_patients = patient_order[: int(np.searchsorted(np.cumsum(sizes[patient_order]), least)) + 1]
        if 2 * sizes[held_out_patients].sum() <= count:
            out = np.flatnonzero(np.isin(owners, held_out_patients))
    return np.setdiff1d(order, out), out

"""The simplest detector: the distance of an image's mean colour from its distribution over normal images."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from typing_extensions import Self


class MeanColour:
    """Gaussian distribution of images' mean colours (0 to 255), with mean `(3,)` and precision matrix `(3, 3)`."""

    def __init__(self, mean: np.ndarray, precision: np.ndarray) -> None:
        self.mean, self.precision = np.asarray(mean, np.float64), np.asarray(precision, np.float64)

    @classmethod
    def fit(cls, images: np.ndarray, roi: np.ndarray | None = None) -> Self:
        """Fits the distribution to normal images uint8 `(N, S, S, 3)`, or to their pixels inside regions of interest.

        Regions are uint8 `(N, S, S)`, nonzero inside, or ignored if empty. Raises ValueError for fewer than 2 images.
        """
        if len(images) < 2:
            raise ValueError("mean colours need at least two normal images")
        means = _means(images, roi)
        spread = np.cov(means.T) + 1e-3 * np.eye(3)  # grey images have no spread between their channels
        return cls(means.mean(0), np.linalg.inv(spread))

    def distances(self, images: np.ndarray, roi: np.ndarray | None = None) -> np.ndarray:
        """Computes the Mahalanobis distance `(N,)` of each image's mean colour; see `fit` for the arguments."""
        offset = _means(images, roi) - self.mean
        return np.asarray(np.sqrt(np.einsum("ni,ij,nj->n", offset, self.precision, offset)))

    def to_dict(self) -> dict[str, Any]:
        return {"mean": self.mean.tolist(), "precision": self.precision.tolist()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return cls(np.array(values["mean"]), np.array(values["precision"]))


def _means(images: np.ndarray, roi: np.ndarray | None) -> np.ndarray:
    regions = [None] * len(images) if roi is None else roi
    means = np.empty((len(images), 3))
    for i, (image, region) in enumerate(zip(images, regions, strict=True)):  # the images may be a memory map
        means[i] = cv2.mean(image, region if region is not None and region.any() else None)[:3]
    return means

"""Percentiles of scores among held-out normal images, and thresholds from them; no test image is used.

An image is flagged (score > threshold(q)) if and only if its percentile is at least q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Self

from core.engine.rows import Rows

CHUNK = 64  # number of maps that are read at once
FULL = 1.5  # smallest ratio of the colour scale's length to the distance of a detector's own level from its lower end


class PixelScale(NamedTuple):
    """Scale that defines how heat maps are coloured and outlined (see `outlines.py`).

    If `share` and `level` are None, images are outlined at the threshold.

    Attributes:
        lo, hi: Ends of the colour scale, the same for every image.
        threshold: Value that must be exceeded somewhere in an outlined region.
        share: Outline level as a fraction of the way from `lo` to the image's maximum, or None.
        seen: Positions shown by normal images: one string of 0 and 1 per row of a grid, or None for all positions.
        level: Outline level of all images if the detector defines one, or None.
    """

    lo: float
    hi: float
    threshold: float
    share: float | None = None
    seen: tuple[str, ...] | None = None
    level: float | None = None

    @property
    def apart(self) -> bool:
        """Whether images are outlined at a level other than the threshold."""
        return self.share is not None or self.level is not None

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Restores a scale from the result of `_asdict`, even after a round trip through JSON."""
        return cls(**{**values, "seen": tuple(values["seen"]) if values.get("seen") else None})


@dataclass(frozen=True)
class Calibration:
    """Scores of held-out normal images in ascending order and, if known, the scale of their heat maps."""

    scores: tuple[float, ...]
    pixels: PixelScale | None = None

    @classmethod
    def of(
        cls,
        scores: np.ndarray,
        maps: Rows | None = None,
        roi: Rows | None = None,
        patients: np.ndarray | None = None,
        *,
        pixel_quantile: float = 99.0,
        image_quantile: float = 95.0,
    ) -> Self:
        """Computes the calibration from the scores and, if given, the heat maps of held-out normal images.

        For the pixel threshold, a high percentile of each map is computed, then the median over each patient's images,
        then the median over patients. A percentile of all pixels would instead depend on a few images, or on one
        patient, that look unusual everywhere. The colour scale ranges from a typical map's median to a percentile of
        the maps' maxima. If scores are maxima of maps, full colour therefore appears only in flagged images.

        Args:
            scores: `(N,)` finite scores of at least one image.
            maps: `(N, h, w)` heat maps in memory or in a file, or None.
            roi: uint8 `(N, S, S)` regions of interest; cells outside are ignored. Defaults to all cells.
            patients: `(N,)` patients of the images; by default, every image is from a different patient.
            pixel_quantile: Percentile of each map that sets the pixel threshold, in per cent.
            image_quantile: Percentile of the maps' maxima that sets the upper end of the colour scale, in per cent.

        Raises:
            ValueError: If there is no score, a score is not finite, or no map has a cell inside its region of interest.
        """
        scores = np.sort(np.asarray(scores, dtype=np.float64).ravel())
        if not len(scores) or not np.isfinite(scores).all():
            raise ValueError("calibration needs at least one held-out normal image, and finite scores only")
        pixels = None
        if maps is not None:
            rows, quantiles = _image_quantiles(maps, roi, pixel_quantile)
            lo, threshold = _usual(quantiles[:, :2], None if patients is None else np.asarray(patients)[rows])
            hi = max(_quantile(np.sort(quantiles[:, 2]), image_quantile), threshold)
            pixels = PixelScale(float(lo), float(hi), float(threshold))
        return cls(tuple(scores.tolist()), pixels)

    def outlined_by(
        self, share: float | None, places: tuple[str, ...] | None, level: tuple[float, float] | None = None
    ) -> Self:
        """Returns a copy whose `PixelScale` has the given `share` and has `places` as `seen`.

        `level` is the result of `Detector.outline_level`; None if the outlines are calibrated on normal images.
        """
        pixels = self.pixels and self.pixels._replace(share=share, seen=places)
        if pixels is not None and level is not None:
            low, high = level
            full = max(pixels.hi, pixels.lo + FULL * (high - pixels.lo))
            pixels = pixels._replace(threshold=high, hi=full, level=low)
        return replace(self, pixels=pixels)

    def percentile(self, scores: np.ndarray | float) -> np.ndarray:
        """Returns the percentage (0 to 100) of held-out normal images with a lower score, in the shape of `scores`."""
        return 100 * np.searchsorted(self.scores, scores, side="left") / len(self.scores)

    def threshold(self, q: float = 95.0) -> float:
        """Returns the lowest held-out score with at least `q` % of the held-out scores at or below it.

        At most 100 - `q` % of the held-out images exceed the threshold. For a guarantee on new images, see
        `core.engine.calibration.conformal`. Raises ValueError unless 0 < `q` <= 100.
        """
        if not 0 < q <= 100:
            raise ValueError(f"a percentile must be above 0 and at most 100, not {q}")
        return float(_quantile(np.asarray(self.scores), q))

    def flagged(self, scores: np.ndarray | float, q: float = 95.0) -> np.ndarray:
        """Returns whether each score is above `threshold(q)`, which is equivalent to percentile(scores) >= q."""
        return np.asarray(scores) > self.threshold(q)

    def to_dict(self) -> dict[str, Any]:
        return {"scores": list(self.scores), "pixels": self.pixels._asdict() if self.pixels else None}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        pixels = values.get("pixels")
        return cls(tuple(values["scores"]), PixelScale.of(pixels) if pixels else None)


def _quantile(ascending: np.ndarray, q: float) -> float:
    """Returns the lowest value with at least q % of all values at or below it, without interpolation."""
    return ascending[max(math.ceil(len(ascending) * q / 100 - 1e-9), 1) - 1]


def _image_quantiles(maps: Rows, roi: Rows | None, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns indices of maps with a cell inside their region, and their median, quantile and maximum `(n, 3)`."""
    from core.engine.calibration.heatmap import roi_at  # imported here because it loads torch, which the page avoids

    quantiles = {}
    for start in range(0, len(maps), CHUNK):
        block = np.asarray(maps[start : start + CHUNK])
        inside = np.ones(block.shape, bool) if roi is None else roi_at(roi[start : start + CHUNK], maps.shape[1:])
        for i, (cells, counts) in enumerate(zip(block, inside, strict=True), start):
            if counts.any():
                quantiles[i] = np.quantile(cells[counts].astype(np.float64), [0.5, quantile / 100, 1])
    if not quantiles:
        raise ValueError("no held-out heat map has a cell inside its region of interest")
    return np.array(list(quantiles)), np.array(list(quantiles.values()))


def _usual(values: np.ndarray, patients: np.ndarray | None) -> np.ndarray:
    """Returns the median over patients of their median values `(N, k)`, or over images if `patients` is None."""
    if patients is None:
        return np.median(values, axis=0)
    return np.median([np.median(values[patients == patient], axis=0) for patient in np.unique(patients)], axis=0)

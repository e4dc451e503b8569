"""What a raw score means: its place among held-out normal images, and the thresholds they give.

Everything here comes from held-out normals alone; no test image has a part in it. One rule joins the three forms of a
score: an image is flagged (score > threshold(q)) exactly when its percentile is q or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Self

from core.engine.rows import Rows

CHUNK = 64  # maps read at once
FULL = 1.5  # times as far from the usual median as a detector's own level: there the colour scale is full at the least


class PixelScale(NamedTuple):
    """How heat maps are coloured, marked and outlined.

    lo, hi: ends of the colour scale, the same for every image. threshold: what nowhere lies above it is not marked.

    share, seen, level: of the outline, as `outlines.py` has them: how far up to its own maximum an image is outlined;
    rows of 0 and 1, places that normal images show (None: all); the one level of all images, of a detector that knows
    it, below which its parts reach. Without share and level images are outlined at the threshold.
    """

    lo: float
    hi: float
    threshold: float
    share: float | None = None
    seen: tuple[str, ...] | None = None
    level: float | None = None

    @property
    def apart(self) -> bool:
        """Whether images are outlined at another level than the threshold."""
        return self.share is not None or self.level is not None

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Reads a scale back from its `_asdict`, through JSON."""
        return cls(**{**values, "seen": tuple(values["seen"]) if values.get("seen") else None})


@dataclass(frozen=True)
class Calibration:
    """The held-out normal images that scores are compared with.

    scores: theirs, ascending. pixels: the scale of their heat maps, if these were given.
    """

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
        """Calibrates by scores (N,) and maps (N, h, w) of N >= 1 held-out normals; maps count only in roi (N, S, S).

        patients (N,): whose image each is; by default each image is one patient's. Maps may lie in a file: a few at a
        time are read.

        Pixels are marked above what is usual for normal images: half of all patients have more than
        100 - `pixel_quantile` per cent of their usual image above it. A quantile of all pixels together would be set by
        the few images, or the one patient, that the detector finds odd all over, and then nothing else is ever marked.
        The colour scale starts at the usual median, and is full at the `image_quantile` of the maps' maxima: for a
        detector whose score is the map's maximum, full colour appears only where the image is flagged.
        """
        scores = np.sort(np.asarray(scores, dtype=np.float64).ravel())
        if not len(scores) or not np.isfinite(scores).all():
            raise ValueError("calibration takes at least one held-out normal image, and finite scores only")
        pixels = None
        if maps is not None:
            where, of_images = _of_images(maps, roi, pixel_quantile)
            lo, threshold = _usual(of_images[:, :2], None if patients is None else np.asarray(patients)[where])
            hi = max(_quantile(np.sort(of_images[:, 2]), image_quantile), threshold)
            pixels = PixelScale(float(lo), float(hi), float(threshold))
        return cls(tuple(scores.tolist()), pixels)

    def outlined_by(
        self, share: float | None, places: tuple[str, ...] | None, level: tuple[float, float] | None = None
    ) -> Self:
        """Returns a copy that also says how images are outlined, as `outlines.py` learnt it.

        level: what a detector knows itself, the level of its outlines and the one above which each part somewhere
        rises.
        """
        pixels = self.pixels and self.pixels._replace(share=share, seen=places)
        if pixels is not None and level is not None:
            low, high = level
            full = max(pixels.hi, pixels.lo + FULL * (high - pixels.lo))
            pixels = pixels._replace(threshold=high, hi=full, level=low)
        return replace(self, pixels=pixels)

    def percentile(self, scores: np.ndarray | float) -> np.ndarray:
        """Returns the share of held-out normals that score lower, 0 to 100; same shape as `scores`."""
        return 100 * np.searchsorted(self.scores, scores, side="left") / len(self.scores)

    def threshold(self, q: float = 95.0) -> float:
        """Returns percentile q (0 < q <= 100) of the held-out normals: the lowest with q per cent or more at or below.

        Of the held-out images themselves at most 100 - q per cent lie above. For a promise about new images see
        `core.engine.calibration.conformal`.
        """
        if not 0 < q <= 100:
            raise ValueError(f"a percentile lies above 0 and up to 100, not at {q}")
        return float(_quantile(np.asarray(self.scores), q))

    def flagged(self, scores: np.ndarray | float, q: float = 95.0) -> np.ndarray:
        """Finds which scores lie above `threshold(q)`; the same as percentile(scores) >= q."""
        return np.asarray(scores) > self.threshold(q)

    def to_dict(self) -> dict[str, Any]:
        return {"scores": list(self.scores), "pixels": self.pixels._asdict() if self.pixels else None}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        pixels = values.get("pixels")
        return cls(tuple(values["scores"]), PixelScale.of(pixels) if pixels else None)


def _quantile(ascending: np.ndarray, q: float) -> float:
    """The lowest value with at least q per cent of all at or below it; no value is made up between two."""
    return ascending[max(math.ceil(len(ascending) * q / 100 - 1e-9), 1) - 1]


def _of_images(maps: Rows, roi: Rows | None, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """Indices (n,) of the maps with a cell inside their region of interest, and for each of these, float64 (n, 3), its
    cells' median, `quantile` per cent and maximum. ValueError if there is none.
    """
    from core.engine.calibration.heatmap import roi_at  # torch, which the page's process does not load

    quantiles = {}
    for start in range(0, len(maps), CHUNK):
        some = np.asarray(maps[start : start + CHUNK])
        inside = np.ones(some.shape, bool) if roi is None else roi_at(roi[start : start + CHUNK], maps.shape[1:])
        for i, (cells, counts) in enumerate(zip(some, inside, strict=True), start):
            if counts.any():
                quantiles[i] = np.quantile(cells[counts].astype(np.float64), [0.5, quantile / 100, 1])
    if not quantiles:
        raise ValueError("no held-out heat map has a cell inside its region of interest")
    return np.array(list(quantiles)), np.array(list(quantiles.values()))


def _usual(values: np.ndarray, patients: np.ndarray | None) -> np.ndarray:
    """values (N, k), patients (N,) -> (k,), the median of all patients' medians; of all images without patients."""
    if patients is None:
        return np.median(values, axis=0)
    return np.median([np.median(values[patients == patient], axis=0) for patient in np.unique(patients)], axis=0)

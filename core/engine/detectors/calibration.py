"""What a raw score means: its place among held-out normal images, and the thresholds they give.

Everything here comes from held-out normals alone; no test image has a part in it. One rule joins the three forms of a
score: an image is flagged (score > threshold(q)) exactly when its percentile is q or more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Self

from core.engine.metrics.quantiles import quantiles

CHUNK = 64  # maps read at once


class Conformal(NamedTuple):
    """threshold: flag what scores above it (infinite when `needed` is not met, and nothing can be flagged).

    guarantee: the sentence to show. needed: held-out normals that the guarantee takes. held: how many there are.
    """

    threshold: float
    guarantee: str
    needed: int
    held: int


class PixelScale(NamedTuple):
    """lo, hi: ends of the colour scale, the same for every image. threshold: pixels above it are marked."""

    lo: float
    hi: float
    threshold: float


@dataclass(frozen=True)
class Calibration:
    """scores: of held-out normals, ascending. pixels: the scale of their heat maps, if these were given."""

    scores: tuple[float, ...]
    pixels: PixelScale | None = None

    @classmethod
    def of(
        cls,
        scores: np.ndarray,
        maps: np.ndarray | None = None,
        roi: np.ndarray | None = None,
        *,
        pixel_quantile: float = 99.0,
        image_quantile: float = 95.0,
    ) -> Self:
        """scores (N,) and maps (N, h, w) of N >= 1 held-out normals; maps count only inside roi (N, S, S).

        Maps may lie in a file: a few at a time are read. Their quantiles are those of float32.

        The colour scale starts at the median pixel of normal images and is full at the `image_quantile` of their
        maxima: for a detector whose score is the map's maximum, full colour appears only where the image is flagged.
        """
        from core.engine.detectors.heatmap import roi_at  # torch, which the page's process does not load

        scores = np.sort(np.asarray(scores, dtype=np.float64).ravel())
        if not len(scores) or not np.isfinite(scores).all():
            raise ValueError("calibration takes at least one held-out normal image, and finite scores only")
        pixels = None
        if maps is not None:

            def parts() -> Iterator[np.ndarray]:
                """The cells that count, of one map after another."""
                for start in range(0, len(maps), CHUNK):
                    some = np.asarray(maps[start : start + CHUNK])
                    inside = None if roi is None else roi_at(roi[start : start + CHUNK], maps.shape[1:])
                    for i, m in enumerate(some):
                        yield m if inside is None else m[inside[i]]

            highest = np.sort([part.max() for part in parts() if part.size])
            if not len(highest):
                raise ValueError("no held-out heat map has a cell inside its region of interest")
            lo, threshold = quantiles(parts, [0.5, pixel_quantile / 100])
            hi = max(_quantile(highest, image_quantile), threshold)
            pixels = PixelScale(float(lo), float(hi), float(threshold))
        return cls(tuple(scores.tolist()), pixels)

    def percentile(self, scores: np.ndarray | float) -> np.ndarray:
        """Share of held-out normals that score lower, 0 to 100; same shape as `scores`."""
        return 100 * np.searchsorted(self.scores, scores, side="left") / len(self.scores)

    def threshold(self, q: float = 95.0) -> float:
        """Percentile q (0 < q <= 100) of the held-out normals: the lowest with a share of q or more at or below.

        Of the held-out images themselves at most 100 - q per cent lie above. For a promise about new images see
        `conformal_threshold`.
        """
        if not 0 < q <= 100:
            raise ValueError(f"a percentile lies above 0 and up to 100, not at {q}")
        return float(_quantile(np.asarray(self.scores), q))

    def flagged(self, scores: np.ndarray | float, q: float = 95.0) -> np.ndarray:
        """Which scores lie above `threshold(q)`; the same as percentile(scores) >= q."""
        return np.asarray(scores) > self.threshold(q)

    def conformal_threshold(self, alpha: float = 0.05, confidence: float | None = None) -> Conformal:
        """Threshold that at most a share `alpha` of new normal images exceeds (split conformal prediction).

        It holds whatever the distribution of scores, if new normal images are like the held-out ones (exchangeable).
        Without `confidence` the share is the mean over draws of the held-out images: rank ceil((n + 1)(1 - alpha)), and
        at least 1 / alpha - 1 of them. With it, the share is at most alpha in that proportion of draws: the share above
        rank k is Beta(n + 1 - k, k), and the least k is taken for which that is at most alpha with this probability.
        """
        if not 0 < alpha < 1 or (confidence is not None and not 0 < confidence < 1):
            raise ValueError("alpha and confidence are shares between 0 and 1, for example 0.05 and 0.95")
        n = len(self.scores)
        if confidence is None:
            needed = math.ceil(1 / alpha - 1 - 1e-9)
            rank = math.ceil((n + 1) * (1 - alpha) - 1e-9)
            how = "on average over draws of held-out images"
        else:
            from scipy import stats  # here: it takes a second to load, and few ask for it

            needed = math.ceil(math.log(1 - confidence) / math.log(1 - alpha) - 1e-9)
            ranks = np.arange(1, n + 1)
            enough = stats.beta.cdf(alpha, n + 1 - ranks, ranks) >= confidence
            rank = int(ranks[enough][0]) if enough.any() else n + 1
            how = f"with {100 * confidence:g} % confidence in the held-out images drawn"
        if n < needed:
            return Conformal(
                math.inf,
                f"No threshold can promise that at most {100 * alpha:g} % of normal images are flagged: it takes "
                f"{needed} held-out normal images, and there are {n}. Hold out more.",
                needed,
                n,
            )
        sentence = (
            f"At most {100 * alpha:g} % of normal images like the {n} held-out ones are flagged, {how} "
            f"(at least {needed} are needed)."
        )
        return Conformal(float(self.scores[rank - 1]), sentence, needed, n)

    def to_dict(self) -> dict[str, Any]:
        return {"scores": list(self.scores), "pixels": self.pixels._asdict() if self.pixels else None}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        pixels = values.get("pixels")
        return cls(tuple(values["scores"]), PixelScale(**pixels) if pixels else None)


def _quantile(ascending: np.ndarray, q: float) -> float:
    """The lowest value with at least q per cent of all at or below it; no value is made up between two."""
    return ascending[max(math.ceil(len(ascending) * q / 100 - 1e-9), 1) - 1]

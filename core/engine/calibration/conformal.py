"""Thresholds with a promise about new normal images (split conformal prediction), from held-out normals alone.

The promise holds whatever the distribution of scores, as long as new images (or patients) are like the held-out ones
(exchangeable). Images of one patient are not exchangeable with those of another: then patients are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Conformal(NamedTuple):
    """A threshold and its promise about new normal images.

    threshold: flag what scores above it (infinite when `needed` is not met, and nothing can be flagged).

    guarantee: the sentence to show. needed: held-out normal images, or patients, that it takes. held: how many there
    are.
    """

    threshold: float
    guarantee: str
    needed: int
    held: int


def promised(
    scores: np.ndarray, patients: np.ndarray | None = None, alpha: float = 0.05, confidence: float = 0.95
) -> Conformal:
    """Makes the strongest promise that these held-out normals allow: with `confidence`, else on average, else none.

    scores (n,), in any order. patients (n,): they are counted where they are known.
    """

    def bound(sure: float | None) -> Conformal:
        if patients is None:
            return by_images(np.sort(scores), alpha, sure)
        return by_patients(scores, patients, alpha, sure)

    strong = bound(confidence)
    return strong if math.isfinite(strong.threshold) else bound(None)


def by_images(
    scores: Sequence[float] | np.ndarray,
    alpha: float = 0.05,
    confidence: float | None = None,
    units: str = "normal images",
) -> Conformal:
    """Computes the threshold that at most a share `alpha` of new normal images exceeds.

    scores: ascending, of n held-out normals. units: what they are of, in words. Without `confidence` the share is the
    mean over draws of the held-out images: rank ceil((n + 1)(1 - alpha)), and at least 1 / alpha - 1 of them. With it,
    the share is at most alpha in that proportion of draws: the share above rank k is Beta(n + 1 - k, k), and the least
    k is taken for which that is at most alpha with this probability.

    Raises ValueError unless alpha and confidence lie between 0 and 1.
    """
    _check(alpha, confidence)
    n = len(scores)
    if confidence is None:
        needed = _needed(alpha)
        rank = math.ceil((n + 1) * (1 - alpha) - 1e-9)
        how = f"on average over draws of held-out {units.split()[-1]}"
    else:
        from scipy import stats  # here: it takes a second to load, and few ask for it

        needed = math.ceil(math.log(1 - confidence) / math.log(1 - alpha) - 1e-9)
        ranks = np.arange(1, n + 1)
        enough = stats.beta.cdf(alpha, n + 1 - ranks, ranks) >= confidence
        rank = int(ranks[enough][0]) if enough.any() else n + 1
        how = f"with {100 * confidence:g} % confidence in the held-out {units.split()[-1]} drawn"
    if n < needed:
        return _none(alpha, needed, n, units)
    whose = "normal images" if units == "normal images" else f"normal images of new {units}"
    sentence = (
        f"At most {100 * alpha:g} % of {whose} like the {n} held-out ones are flagged, {how} "
        f"(at least {needed} are needed)."
    )
    return Conformal(float(scores[rank - 1]), sentence, needed, n)


def by_patients(
    scores: np.ndarray, patients: np.ndarray, alpha: float = 0.05, confidence: float | None = None
) -> Conformal:
    """Computes the threshold that a normal image of a new patient exceeds with a probability of at most `alpha`.

    scores, patients (n,): of held-out normals, in any order. Each of K patients has the weight 1 / (K + 1), shared by
    the images; the lowest score is taken with 1 - alpha of the weight at or below it (Lee, Barber and Willett,
    Distribution-free inference with hierarchical data, 2023). With one image a patient this is `by_images`. With
    `confidence` it is `by_images` of one image of each patient, always the same one, drawn by chance.

    Raises ValueError unless alpha and confidence lie between 0 and 1.
    """
    if confidence is not None:
        drawn = np.random.default_rng(0).permutation(len(scores))
        drawn = drawn[np.unique(np.asarray(patients)[drawn], return_index=True)[1]]
        return by_images(np.sort(np.asarray(scores)[drawn]), alpha, confidence, "patients")
    _check(alpha, None)
    _, owner, images = np.unique(patients, return_inverse=True, return_counts=True)
    held, needed = len(images), _needed(alpha)
    if held < needed:
        return _none(alpha, needed, held, "patients")
    order = np.argsort(scores, kind="stable")
    weight = np.cumsum(1 / images[owner[order]]) / (held + 1)
    place = int(np.searchsorted(weight, 1 - alpha - 1e-9))
    sentence = (
        f"At most {100 * alpha:g} % of normal images of new patients like the {held} held-out ones are flagged, on "
        f"average over draws of held-out patients (at least {needed} are needed)."
    )
    return Conformal(float(scores[order[place]]), sentence, needed, held)


def _check(alpha: float, confidence: float | None) -> None:
    if not 0 < alpha < 1 or (confidence is not None and not 0 < confidence < 1):
        raise ValueError("alpha and confidence are shares between 0 and 1, for example 0.05 and 0.95")


def _needed(alpha: float) -> int:
    return math.ceil(1 / alpha - 1 - 1e-9)


def _none(alpha: float, needed: int, held: int, units: str) -> Conformal:
    return Conformal(
        math.inf,
        f"No threshold can promise that at most {100 * alpha:g} % of normal images are flagged: it takes "
        f"{needed} held-out {units}, and there are {held}. Hold out more.",
        needed,
        held,
    )

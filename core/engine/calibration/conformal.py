"""Thresholds from held-out normal images that guarantee a false alarm rate (split conformal prediction).

The guarantee holds for any distribution of scores as long as new and held-out images are exchangeable. Images of one
patient are not exchangeable with images of other patients. If known, patients are therefore counted instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Conformal(NamedTuple):
    """Threshold with a guarantee on the fraction of new normal images whose score exceeds it.

    Attributes:
        threshold: Score above which an image is flagged, or infinity if there are too few held-out images.
        guarantee: Sentence for users that states the guarantee, or why there is none.
        needed, held: Required and available number of held-out normal images, or of patients.
    """

    threshold: float
    guarantee: str
    needed: int
    held: int


def strongest_guarantee(
    scores: np.ndarray, patients: np.ndarray | None = None, alpha: float = 0.05, confidence: float = 0.95
) -> Conformal:
    """Returns the threshold with the strongest guarantee that the held-out normal images allow.

    With enough images, the guarantee holds with probability `confidence`; with fewer, on average; with too few, there
    is none. `alpha` is the allowed false alarm rate. The scores `(n,)` may be in any order. `patients` `(n,)` is None
    if unknown.
    """

    def bound(sure: float | None) -> Conformal:
        if patients is None:
            return by_images(np.sort(scores), alpha, sure)
        return by_patients(scores, patients, alpha, sure)

    confident = bound(confidence)
    return confident if math.isfinite(confident.threshold) else bound(None)


def by_images(
    scores: Sequence[float] | np.ndarray,
    alpha: float = 0.05,
    confidence: float | None = None,
    units: str = "normal images",
) -> Conformal:
    """Computes a threshold that at most a fraction `alpha` of new normal images exceeds.

    Without `confidence`, this holds on average over random choices of the n held-out images. The threshold is the score
    of rank ceil((n + 1)(1 - alpha)), and n must be at least 1 / alpha - 1. With `confidence`, it holds with this
    probability. The fraction of new scores above the score of rank k follows Beta(n + 1 - k, k); the threshold has the
    smallest rank k for which this fraction is at most `alpha` with probability `confidence`.

    Args:
        scores: `(n,)` scores of held-out normal images in ascending order.
        alpha: False alarm rate, between 0 and 1.
        confidence: Probability of the guarantee, between 0 and 1. Defaults to a guarantee on average.
        units: Noun for the counted units in the text of the guarantee: "normal images" or "patients".

    Raises:
        ValueError: If `alpha` or `confidence` is not between 0 and 1.
    """
    _check(alpha, confidence)
    n = len(scores)
    if confidence is None:
        needed = _needed(alpha)
        rank = math.ceil((n + 1) * (1 - alpha) - 1e-9)
        condition = f"on average over draws of held-out {units.split()[-1]}"
    else:
        from scipy.special import betainc  # imported here because it loads slowly and is rarely needed

        needed = math.ceil(math.log(1 - confidence) / math.log(1 - alpha) - 1e-9)
        ranks = np.arange(1, n + 1)
        enough = betainc(n + 1 - ranks, ranks, alpha) >= confidence
        rank = int(ranks[enough][0]) if enough.any() else n + 1
        condition = f"with {100 * confidence:g} % confidence in the held-out {units.split()[-1]} drawn"
    if n < needed:
        return _none(alpha, needed, n, units)
    population = "normal images" if units == "normal images" else f"normal images of new {units}"
    sentence = (
        f"At most {100 * alpha:g} % of {population} like the {n} held-out ones are flagged, {condition} "
        f"(at least {needed} are needed)."
    )
    return Conformal(float(scores[rank - 1]), sentence, needed, n)


def by_patients(
    scores: np.ndarray, patients: np.ndarray, alpha: float = 0.05, confidence: float | None = None
) -> Conformal:
    """Computes a threshold that a normal image of a new patient exceeds with a probability of at most `alpha`.

    Each of K patients is weighted by 1 / (K + 1), divided equally among the patient's images. The threshold is the
    lowest score such that images with at most this score have a total weight of at least 1 - `alpha` (Lee, Barber and
    Willett, Distribution-free inference with hierarchical data, 2023). With one image per patient, it equals
    `by_images`. With `confidence`, `by_images` is applied to one random image per patient. The scores `(n,)` may be in
    any order. Raises ValueError if `alpha` or `confidence` is not between 0 and 1.
    """
    if confidence is not None:
        rows = np.random.default_rng(0).permutation(len(scores))
        rows = rows[np.unique(np.asarray(patients)[rows], return_index=True)[1]]
        return by_images(np.sort(np.asarray(scores)[rows]), alpha, confidence, "patients")
    _check(alpha, None)
    _, owner, images = np.unique(patients, return_inverse=True, return_counts=True)
    patient_count, needed = len(images), _needed(alpha)
    if patient_count < needed:
        return _none(alpha, needed, patient_count, "patients")
    order = np.argsort(scores, kind="stable")
    weight = np.cumsum(1 / images[owner[order]]) / (patient_count + 1)
    rank = int(np.searchsorted(weight, 1 - alpha - 1e-9))
    sentence = (
        f"At most {100 * alpha:g} % of normal images of new patients like the {patient_count} held-out ones are "
        f"flagged, on average over draws of held-out patients (at least {needed} are needed)."
    )
    return Conformal(float(scores[order[rank]]), sentence, needed, patient_count)


def _check(alpha: float, confidence: float | None) -> None:
    if not 0 < alpha < 1 or (confidence is not None and not 0 < confidence < 1):
        raise ValueError(f"alpha and confidence must be between 0 and 1, not {alpha} and {confidence}")


def _needed(alpha: float) -> int:
    return math.ceil(1 / alpha - 1 - 1e-9)


def _none(alpha: float, needed: int, held: int, units: str) -> Conformal:
    return Conformal(
        math.inf,
        f"No threshold can promise that at most {100 * alpha:g} % of normal images are flagged: this needs "
        f"{needed} held-out {units}, and there are {held}. Hold out more.",
        needed,
        held,
    )

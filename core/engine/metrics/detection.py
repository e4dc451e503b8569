"""How well scores separate abnormal images from normal ones (Sec. evaluation measures of the paper)."""

from __future__ import annotations

import numpy as np

from core.engine.mean_colour import MeanColour


def auroc(scores: np.ndarray, labels: np.ndarray) -> float | None:
    """Computes the area under the ROC curve.

    It is the chance that an abnormal one scores above a normal one, ties counting half.
    scores, labels: any shape, alike; labels 0/1. Exact, and quick enough for tens of millions of pixels.
    None if one of the two kinds is missing.
    """
    scores, labels = np.asarray(scores).ravel(), np.asarray(labels).ravel().astype(bool)
    normal, abnormal = np.sort(scores[~labels]), np.sort(scores[labels])
    if not len(normal) or not len(abnormal):
        return None
    below = np.searchsorted(normal, abnormal, side="left").sum(dtype=np.int64)
    upto = np.searchsorted(normal, abnormal, side="right").sum(dtype=np.int64)
    return float((below + upto) / (2 * len(normal) * len(abnormal)))


def average_precision(scores: np.ndarray, labels: np.ndarray) -> float | None:
    """Computes average precision: precision times the rise of recall, summed from the highest score down.

    There is no interpolation. None if one of the two kinds is missing, as in `auroc`.
    """
    scores, labels = np.asarray(scores).ravel(), np.asarray(labels).ravel().astype(bool)
    if labels.all() or not labels.any():
        return None
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.diff(scores[order], append=np.nan))  # the last of each run of equal scores
    hits = np.cumsum(labels[order])[last]
    return float((hits / (last + 1) * np.diff(hits, prepend=0)).sum() / labels.sum())


def rates(scores: np.ndarray, labels: np.ndarray, threshold: float) -> dict[str, float | None]:
    """Returns {"sensitivity", "specificity", "accuracy"} when what scores above `threshold` is called abnormal."""
    flagged, labels = np.asarray(scores) > threshold, np.asarray(labels).astype(bool)
    return {
        "sensitivity": float(flagged[labels].mean()) if labels.any() else None,
        "specificity": float(1 - flagged[~labels].mean()) if not labels.all() else None,
        "accuracy": float((flagged == labels).mean()) if len(labels) else None,
    }


def mean_colour_scores(
    train: np.ndarray, test: np.ndarray, roi: tuple[np.ndarray, np.ndarray] | None = None
) -> np.ndarray:
    """Scores test images by how far their mean colour lies from that of normal images.

    This is the baseline that a study must not be solved by.
    train, test uint8 (N, S, S, 3); roi: (train's, test's) uint8 (N, S, S), then only what lies inside counts.
    Returns Mahalanobis distances (N_test,), float64.
    """
    roi_train, asked = roi or (None, None)
    return MeanColour.fit(train, roi_train).distances(test, asked)


# Where the line between normal and abnormal is drawn before an evaluation, and from which images.
#
# `held-out`: from held-out normals alone; no test image has a part in it. `paper` (Sec. evaluation measures): from 50
# normal and 50 abnormal images drawn from the test set, which stay in it, as the paper's text has it: optimistic.
# For pixels, where the paper names no rule: `held-out` as above, or `best-dice` of the abnormal images of such a draw.


PROTOCOLS = ("held-out", "paper")
PIXEL_RULES = ("held-out", "best-dice")
DRAWN = 50


def validation_draw(labels: np.ndarray, seed: int, eligible: np.ndarray | None = None) -> np.ndarray:
    """Draws 50 normal and 50 abnormal images, or as many as there are: labels (N,) 0/1 -> indices, ascending.

    eligible bool (N,): only these can be drawn.
    """
    rng = np.random.default_rng([seed, DRAWN])
    eligible = np.ones(len(labels), bool) if eligible is None else eligible
    drawn = []
    for kind in (0, 1):
        members = np.flatnonzero((labels == kind) & eligible)
        drawn.append(rng.permutation(members)[:DRAWN])
    return np.sort(np.concatenate(drawn))


def most_accurate(scores: np.ndarray, labels: np.ndarray) -> float:
    """Finds the threshold (flag what scores above it) with the highest mean of sensitivity and specificity.

    Half-way between two scores; of several equally good, the middle one. With as many normal as abnormal images it
    is the most accurate threshold.
    """
    values = np.unique(np.asarray(scores, dtype=np.float64))
    if labels.all() or not labels.any():
        raise ValueError("the paper's threshold takes normal and abnormal test images; use the held-out protocol")
    cuts = np.concatenate([[values[0] - 1], (values[1:] + values[:-1]) / 2, [values[-1] + 1]])
    normal, abnormal = np.sort(scores[labels == 0]), np.sort(scores[labels == 1])
    specificity = np.searchsorted(normal, cuts, side="right") / len(normal)
    sensitivity = 1 - np.searchsorted(abnormal, cuts, side="right") / len(abnormal)
    both = specificity + sensitivity
    best = np.flatnonzero(both >= both.max() - 1e-12)
    return float(cuts[best[len(best) // 2]])

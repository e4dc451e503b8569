"""Metrics for how well scores separate abnormal from normal images (the paper's Sec. evaluation measures)."""

from __future__ import annotations

import numpy as np


def auroc(scores: np.ndarray, labels: np.ndarray) -> float | None:
    """Computes the exact area under the ROC curve (AUROC), fast enough for tens of millions of pixels.

    The AUROC is the probability that an abnormal image or pixel has a higher score than a normal one; ties count half.

    Args:
        scores: Anomaly scores of any shape.
        labels: Labels of the same shape, 1 for abnormal and 0 for normal.

    Returns:
        The AUROC, or None if there are no normal or no abnormal labels.
    """
    scores, labels = np.asarray(scores).ravel(), np.asarray(labels).ravel().astype(bool)
    normal, abnormal = np.sort(scores[~labels]), np.sort(scores[labels])
    if not len(normal) or not len(abnormal):
        return None
    below = np.searchsorted(normal, abnormal, side="left").sum(dtype=np.int64)
    upto = np.searchsorted(normal, abnormal, side="right").sum(dtype=np.int64)
    return float((below + upto) / (2 * len(normal) * len(abnormal)))


def average_precision(scores: np.ndarray, labels: np.ndarray) -> float | None:
    """Computes the average precision without interpolation: the sum of precision times the increase in recall.

    See `auroc` for the arguments. Returns None if there are no normal or no abnormal labels.
    """
    scores, labels = np.asarray(scores).ravel(), np.asarray(labels).ravel().astype(bool)
    if labels.all() or not labels.any():
        return None
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.diff(scores[order], append=np.nan))  # index of the last of equal scores
    hits = np.cumsum(labels[order])[last]
    return float((hits / (last + 1) * np.diff(hits, prepend=0)).sum() / labels.sum())


def rates(scores: np.ndarray, labels: np.ndarray, threshold: float) -> dict[str, float | None]:
    """Returns sensitivity, specificity and accuracy of flagging scores above `threshold`, None if undefined."""
    flagged, labels = np.asarray(scores) > threshold, np.asarray(labels).astype(bool)
    return {
        "sensitivity": float(flagged[labels].mean()) if labels.any() else None,
        "specificity": float(1 - flagged[~labels].mean()) if not labels.all() else None,
        "accuracy": float((flagged == labels).mean()) if len(labels) else None,
    }


# Rules by which an evaluation chooses its thresholds. `held-out` uses held-out normal images and no test image.
# `paper` (Sec. evaluation measures) uses 50 normal and 50 abnormal images drawn from the test set, which stay in the
# test set, as the paper says; this is optimistic. The paper has no rule for pixels: theirs is `held-out`, or
# `best-dice`, the threshold with the best Dice on the abnormal images of such a sample.

PROTOCOLS = ("held-out", "paper")
PIXEL_RULES = ("held-out", "best-dice")
VALIDATION_IMAGES = 50  # number of images of each label


def validation_draw(labels: np.ndarray, seed: int, eligible: np.ndarray | None = None) -> np.ndarray:
    """Draws up to 50 normal and 50 abnormal images at random; returns their indices in ascending order.

    Args:
        labels: `(N,)` labels, 1 for abnormal and 0 for normal images.
        seed: Random seed.
        eligible: bool `(N,)`, True for images that may be drawn. Defaults to all.
    """
    rng = np.random.default_rng([seed, VALIDATION_IMAGES])
    eligible = np.ones(len(labels), bool) if eligible is None else eligible
    samples = []
    for label in (0, 1):
        members = np.flatnonzero((labels == label) & eligible)
        samples.append(rng.permutation(members)[:VALIDATION_IMAGES])
    return np.sort(np.concatenate(samples))


def most_accurate(scores: np.ndarray, labels: np.ndarray) -> float:
    """Returns the threshold with the highest mean of sensitivity and specificity.

    Among equally good thresholds, the middle one is returned. With equal numbers of normal and abnormal images it also
    has the highest accuracy. Raises ValueError unless both labels are present.
    """
    values = np.unique(np.asarray(scores, dtype=np.float64))
    if labels.all() or not labels.any():
        raise ValueError("the paper's threshold needs normal and abnormal test images; use the held-out protocol")
    cuts = np.concatenate([[values[0] - 1], (values[1:] + values[:-1]) / 2, [values[-1] + 1]])
    normal, abnormal = np.sort(scores[labels == 0]), np.sort(scores[labels == 1])
    specificity = np.searchsorted(normal, cuts, side="right") / len(normal)
    sensitivity = 1 - np.searchsorted(abnormal, cuts, side="right") / len(abnormal)
    both = specificity + sensitivity
    best = np.flatnonzero(both >= both.max() - 1e-12)
    return float(cuts[best[len(best) // 2]])

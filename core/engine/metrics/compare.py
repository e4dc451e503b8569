"""Paired tests of whether one method is better than another on the same images, and a correction for many claims."""

from __future__ import annotations

import numpy as np
import scipy  # its parts load when they are first used: stats takes a second


def placements(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes DeLong's structural components of an AUROC: of each abnormal image, and of each normal one.

    scores, labels (N,). The first (P,) is the share of normals that an abnormal one scores above, ties counting half;
    the second (M,) the share of abnormal ones above a normal one. Either's mean is the AUROC.
    """
    sick, well = scores[labels == 1], scores[labels == 0]
    ranks, own, other = scipy.stats.rankdata(scores), scipy.stats.rankdata(sick), scipy.stats.rankdata(well)
    return (ranks[labels == 1] - own) / len(well), 1 - (ranks[labels == 0] - other) / len(sick)


def delong(
    ours: np.ndarray, theirs: np.ndarray, labels: np.ndarray, groups: np.ndarray | None = None
) -> tuple[float, float]:
    """Returns the difference of two mean AUROCs on the same images, and its two-sided p value (DeLong et al. 1988).

    ours, theirs (S, N): scores of S seeds each (their numbers may differ); labels (N,) 0/1; groups (N,): whose image
    each is, then the variance is that of patients drawn anew, not of images (Obuchowski 1997). The contrast is the
    mean over our seeds less the mean over theirs, with the covariance of all AUROCs together. Raises ValueError unless
    there are two images (and two patients) of each kind. Two methods that score alike have p = 1.
    """
    labels = np.asarray(labels).astype(int)
    if min((labels == 1).sum(), (labels == 0).sum()) < 2:
        raise ValueError("DeLong's test takes at least two normal and two abnormal images")
    rows = [*np.atleast_2d(ours), *np.atleast_2d(theirs)]
    weights = np.concatenate([np.full(len(group), 1 / len(group)) for group in map(np.atleast_2d, (ours, theirs))])
    weights[len(np.atleast_2d(ours)) :] *= -1
    sick, well = (np.stack(values) for values in zip(*(placements(np.asarray(r), labels) for r in rows), strict=True))
    difference = float(weights @ sick.mean(1))
    # The contrast of each image's components: its variance is that of the difference.
    variance = _variance(weights @ sick, weights @ well, labels, np.arange(len(labels)) if groups is None else groups)
    if variance <= 1e-18:
        return difference, 1.0 if abs(difference) < 1e-12 else 0.0
    return difference, float(2 * scipy.stats.norm.sf(abs(difference) / np.sqrt(variance)))


def _variance(sick: np.ndarray, well: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> float:
    """Variance of a contrast of AUROCs from its components of abnormal (P,) and normal images (M,), by groups (N,).

    Obuchowski 1997: components are summed within each patient, and one with images of both kinds adds a covariance.
    With a patient for each image this is DeLong's variance.
    """
    names, member = np.unique(groups, return_inverse=True)
    sums, counts = [], []
    for values, kind in ((sick, 1), (well, 0)):
        owner = member[labels == kind]
        sums.append(np.bincount(owner, values - values.mean(), minlength=len(names)))
        counts.append(len(np.unique(owner)))
    if min(counts) < 2:
        raise ValueError("DeLong's test takes at least two patients of each kind")
    scale = [n / (n - 1) / len(values) ** 2 for n, values in zip(counts, (sick, well), strict=True)]
    shared = 2 * len(names) / (len(names) - 1) / (len(sick) * len(well))
    return float(sum(a * (s @ s) for a, s in zip(scale, sums, strict=True)) + shared * (sums[0] @ sums[1]))


def paired_bootstrap(
    ours: np.ndarray, theirs: np.ndarray, groups: np.ndarray | None = None, times: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Returns the difference of two means over the same images, and its two-sided p value by drawing images again.

    ours, theirs (N,), such as the Dice of each image; groups (N,): what is drawn as a whole, such as a patient
    (default: each image by itself). p is twice the smaller share of draws on either side of 0, at least 1 / times.
    """
    gap = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    _, member = np.unique(np.arange(len(gap)) if groups is None else groups, return_inverse=True)
    sums, sizes = np.bincount(member, gap), np.bincount(member)
    picks = np.random.default_rng(seed).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=times)
    means = (picks @ sums) / (picks @ sizes)
    side = min((means <= 0).mean(), (means >= 0).mean())
    return float(gap.mean()), float(min(1.0, max(2 * side, 1 / times)))


def holm(p_values: list[float]) -> list[float]:
    """Applies Holm's correction (1979) for the number of claims: returns adjusted p values, in the order given."""
    order = np.argsort(p_values)
    adjusted, highest = np.empty(len(p_values)), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return [float(v) for v in adjusted]

"""Paired comparisons of methods on the same images: tests, a correction for multiple testing, bootstrap intervals.

Both methods use the same bootstrap samples, so that images that are hard for both do not widen the interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # the submodules are loaded on first use, because scipy.stats takes a second

from core.engine.calibration.percentiles import Calibration
from core.engine.metrics import bootstrap as boot
from core.engine.metrics.detection import auroc
from core.engine.metrics.localisation import Pixels
from core.engine.metrics.localised import at_once


def placements(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes DeLong's structural components of the AUROC from scores `(N,)` and labels `(N,)`; ties count half.

    Returns, for each abnormal image, the fraction of normal images with a lower score and, for each normal image, the
    fraction of abnormal images with a higher score. The mean of either array is the AUROC.
    """
    sick, well = scores[labels == 1], scores[labels == 0]
    ranks, sick_ranks, well_ranks = scipy.stats.rankdata(scores), scipy.stats.rankdata(sick), scipy.stats.rankdata(well)
    return (ranks[labels == 1] - sick_ranks) / len(well), 1 - (ranks[labels == 0] - well_ranks) / len(sick)


def delong(
    ours: np.ndarray, theirs: np.ndarray, labels: np.ndarray, groups: np.ndarray | None = None
) -> tuple[float, float]:
    """Compares the mean AUROCs of two methods on the same N images with DeLong's test (DeLong et al. 1988).

    Args:
        ours: `(S, N)` scores of the first method with S random seeds.
        theirs: `(T, N)` scores of the second method with T random seeds.
        labels: `(N,)` labels, 1 for abnormal and 0 for normal images.
        groups: `(N,)` patients of the images, for a variance over patients (Obuchowski 1997), or None.

    Returns:
        The first method's mean AUROC minus the second's, and the two-sided p-value, which accounts for the covariance
        of all AUROCs. Methods with equal scores have p = 1.

    Raises:
        ValueError: If a label has fewer than two images or two patients.
    """
    labels = np.asarray(labels).astype(int)
    if min((labels == 1).sum(), (labels == 0).sum()) < 2:
        raise ValueError("DeLong's test needs at least two normal and two abnormal images")
    rows = [*np.atleast_2d(ours), *np.atleast_2d(theirs)]
    weights = np.concatenate([np.full(len(group), 1 / len(group)) for group in map(np.atleast_2d, (ours, theirs))])
    weights[len(np.atleast_2d(ours)) :] *= -1
    sick, well = (np.stack(values) for values in zip(*(placements(np.asarray(r), labels) for r in rows), strict=True))
    difference = float(weights @ sick.mean(1))
    variance = _variance(weights @ sick, weights @ well, labels, np.arange(len(labels)) if groups is None else groups)
    if variance <= 1e-18:
        return difference, 1.0 if abs(difference) < 1e-12 else 0.0
    return difference, float(2 * scipy.stats.norm.sf(abs(difference) / np.sqrt(variance)))


def _variance(sick: np.ndarray, well: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> float:
    """Computes the variance of a weighted sum of AUROCs from its components for abnormal and normal images.

    Components are summed within each patient of `groups`, and patients with images of both labels add a covariance
    (Obuchowski 1997). With one image per patient this is DeLong's variance.
    """
    names, member = np.unique(groups, return_inverse=True)
    sums, counts = [], []
    for values, kind in ((sick, 1), (well, 0)):
        owner = member[labels == kind]
        sums.append(np.bincount(owner, values - values.mean(), minlength=len(names)))
        counts.append(len(np.unique(owner)))
    if min(counts) < 2:
        raise ValueError("DeLong's test needs at least two patients with normal and two with abnormal images")
    scale = [n / (n - 1) / len(values) ** 2 for n, values in zip(counts, (sick, well), strict=True)]
    shared = 2 * len(names) / (len(names) - 1) / (len(sick) * len(well))
    return float(sum(a * (s @ s) for a, s in zip(scale, sums, strict=True)) + shared * (sums[0] @ sums[1]))


def paired_bootstrap(
    ours: np.ndarray, theirs: np.ndarray, groups: np.ndarray | None = None, times: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Compares the means of two methods' values over the same N images by the bootstrap.

    Args:
        ours: `(N,)` values of the first method, such as the Dice of each image.
        theirs: `(N,)` values of the second method.
        groups: `(N,)` groups, such as patients, whose images are drawn together, or None to draw single images.
        times: Number of bootstrap samples.
        seed: Random seed.

    Returns:
        The first mean minus the second, and the two-sided p-value: twice the smaller of the fractions of samples below
        and above 0, but at least 1 / `times`.
    """
    gap = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    _, member = np.unique(np.arange(len(gap)) if groups is None else groups, return_inverse=True)
    sums, sizes = np.bincount(member, gap), np.bincount(member)
    picks = np.random.default_rng(seed).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=times)
    means = (picks @ sums) / (picks @ sizes)
    side = min((means <= 0).mean(), (means >= 0).mean())
    return float(gap.mean()), float(min(1.0, max(2 * side, 1 / times)))


def holm(p_values: list[float]) -> list[float]:
    """Returns the p-values corrected for multiple testing by Holm's method (1979), in the same order."""
    order = np.argsort(p_values)
    adjusted, highest = np.empty(len(p_values)), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return [float(v) for v in adjusted]


MEASURES = ("auroc", "pixel_auroc", "dice", "pro")
FEW = 20  # number of images of either label below which a difference is hardly ever significant


@dataclass(frozen=True)
class Read:
    """Results of a detector on N images.

    Attributes:
        scores: `(N,)` anomaly scores.
        maps: `(N, h, w)` heat maps at the detector's own resolution.
        held: Calibration on held-out normal images, which includes the pixel threshold.
    """

    scores: np.ndarray
    maps: np.ndarray
    held: Calibration


@dataclass(frozen=True)
class Truth:
    """Ground truth of N test images.

    Attributes:
        labels: `(N,)` labels, 1 for abnormal and 0 for normal images.
        masks: `(N, S, S)` lesion masks of 0 and 1.
        has_mask: bool `(N,)`, True for abnormal images with a lesion mask.
        roi: uint8 `(N, S, S)` regions of interest, or None.
        patients: `(N,)` patients of the images, or None.
    """

    labels: np.ndarray
    masks: np.ndarray
    has_mask: np.ndarray
    roi: np.ndarray | None = None
    patients: np.ndarray | None = None


def compared(old: Read, new: Read, truth: Truth, times: int = 1000, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Compares two detectors on the same images by each measure.

    Pixels outside the region of interest are ignored. Image AUROC uses all N images, pixel AUROC normal images and
    abnormal images with a mask. PRO and Dice (of each detector's outlines) use only abnormal images with a mask.

    Returns:
        For each measure: `old`, `new`, `difference`, `interval` (95 %, of the difference), `images` (number of images)
        and `enough` (whether there are at least FEW abnormal and, for image AUROC, FEW normal images). Dice also has
        `each`, tuples (index, old Dice, new Dice) of images with a lesion. Undefined values are None.
    """
    counts = boot.bootstrap_counts(truth.labels, times, seed, truth.patients)
    with_lesion = _pixels(old, truth).lesions()[1] & truth.has_mask
    (first, first_draws), (second, second_draws) = (_figures(read, truth, with_lesion, counts) for read in (old, new))
    sick, well = int((truth.labels == 1).sum()), int((truth.labels == 0).sum())
    marked = int(with_lesion.sum())
    few = {"auroc": min(sick, well), "pixel_auroc": marked, "dice": marked, "pro": marked}
    images = {"auroc": sick + well, "pixel_auroc": marked + well, "dice": marked, "pro": marked}
    out = {}
    for name in MEASURES:
        defined = first[name] is not None and second[name] is not None
        out[name] = {
            "old": first[name],
            "new": second[name],
            "difference": second[name] - first[name] if defined else None,
            "interval": boot.interval(second_draws[name] - first_draws[name]) if defined else None,
            "images": images[name],
            "enough": few[name] >= FEW,
        }
    if first_draws.keys() & second_draws.keys() >= {"each"}:
        pairs = zip(np.flatnonzero(with_lesion), first_draws["each"], second_draws["each"], strict=True)
        out["dice"]["each"] = [(int(image), float(before), float(after)) for image, before, after in pairs]
    return out


def _pixels(read: Read, truth: Truth) -> Pixels:
    return Pixels(read.maps, truth.masks, truth.labels, truth.roi)


def _figures(
    read: Read, truth: Truth, with_lesion: np.ndarray, counts: np.ndarray
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns a detector's metrics, None if undefined, and their bootstrap values `(times,)`, by measure."""
    point: dict[str, Any] = dict.fromkeys(MEASURES)
    draws: dict[str, np.ndarray] = {}
    point["auroc"] = auroc(read.scores, truth.labels)
    if point["auroc"] is not None:
        draws["auroc"] = boot.detection(read.scores, truth.labels, counts)[0]
    if not with_lesion.any() or read.held.pixels is None:
        return point, draws
    used = np.flatnonzero((truth.labels == 0) | with_lesion)
    used_counts = counts[:, used]
    measured = at_once(_pixels(read, truth), used, with_lesion[used], read.held.pixels, used_counts)
    assert measured.pros is not None and measured.pixel_aurocs is not None  # draws were given
    point |= {"pixel_auroc": measured.pixel_auroc, "dice": float(measured.dice.mean()), "pro": measured.pro}
    draws |= {
        "pixel_auroc": measured.pixel_aurocs,
        "dice": boot.means(measured.dice, used_counts[:, with_lesion[used]]),
    }
    return point, draws | {"pro": measured.pros, "each": measured.dice}

"""Two detectors on the same images: the figures of each, and bootstrap intervals of their differences.

Both use the same bootstrap samples, so that images that are hard for both do not widen the interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from core.engine.calibration.percentiles import Calibration
from core.engine.metrics import bootstrap as boot
from core.engine.metrics.detection import auroc
from core.engine.metrics.localisation import Pixels
from core.engine.metrics.localised import at_once

MEASURES = ("auroc", "pixel_auroc", "dice", "pro")
FEW = 20  # images of either label, below which a difference is hardly significant


@dataclass(frozen=True)
class Read:
    """A detector's results on N images.

    scores: (N,). maps: (N, h, w), at its own resolution. held: the calibration by held-out normals, with the pixel
    threshold.
    """

    scores: np.ndarray
    maps: np.ndarray
    held: Calibration


@dataclass(frozen=True)
class Truth:
    """The ground truth of N test images.

    labels: (N,), 1 if abnormal. masks: 0/1 (N, S, S). has_mask: bool (N,), abnormal images whose mask is known. roi:
    uint8 (N, S, S) or None. patients: (N,), the patient of each image, or None.
    """

    labels: np.ndarray
    masks: np.ndarray
    has_mask: np.ndarray
    roi: np.ndarray | None = None
    patients: np.ndarray | None = None


def compared(old: Read, new: Read, truth: Truth, times: int = 1000, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Compares two detectors on the same images, by measure.

    Image AUROC is over all N images, pixel AUROC over normal images and those with a mask, Dice (of each detector's
    outlines) and PRO over those with a mask, all inside the region of interest.

    Returns:
        By measure: old, new, difference, its 95 % interval, images (their number), and enough, whether there are at
        least FEW images of each label that the measure compares; of Dice also each, the index and both values of each
        image with a known lesion. Undefined figures are None.
    """
    counts = boot.draws(truth.labels, times, seed, truth.patients)
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
    """Computes the figures, None if undefined, and those of the bootstrap samples, (times,).

    with_lesion: bool (N,), images with a known lesion pixel that counts.
    """
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

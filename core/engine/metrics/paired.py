"""Two detectors on the same images: the figures of each, and of their difference an interval by drawing images again.

Both are drawn together, so that what makes an image hard for both does not widen the interval of their difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from core.engine.detectors.calibration import Calibration
from core.engine.detectors.heatmap import upsample
from core.engine.metrics import bootstrap as boot
from core.engine.metrics.detection import auroc
from core.engine.metrics.localisation import overlaps, pixel_auroc
from core.engine.metrics.pro import pro, region_weights

MEASURES = ("auroc", "pixel_auroc", "dice", "pro")
FEW = 20  # images of a kind, under which a difference is not to be told from chance


@dataclass(frozen=True)
class Read:
    """What a detector says of N images: scores (N,), maps (N, h, w) at its own resolution, and of held-out normal
    images the scale that its pixel threshold comes from.
    """

    scores: np.ndarray
    maps: np.ndarray
    held: Calibration


@dataclass(frozen=True)
class Truth:
    """labels (N,) 0/1; masks 0/1 (N, S, S); has_mask bool (N,): abnormal images whose mask is known; roi uint8
    (N, S, S) or None; patients (N,), whose image each is, or None.
    """

    labels: np.ndarray
    masks: np.ndarray
    has_mask: np.ndarray
    roi: np.ndarray | None = None
    patients: np.ndarray | None = None


def compared(old: Read, new: Read, truth: Truth, times: int = 1000, seed: int = 0) -> dict[str, dict[str, Any]]:
    """By measure: {"old", "new", "difference", "interval" (95 %, of the difference), "images", "enough"}.

    Image AUROC is over all N, pixel AUROC over normal images and those with a mask, Dice (at each detector's own
    threshold) and PRO over those with a mask, inside the region of interest. A figure that cannot be had is None.
    enough: whether there are FEW images or more of each kind that the measure compares.
    """
    counts = boot.draws(truth.labels, times, seed, truth.patients)
    (first, drawn), (second, redrawn) = (_figures(read, truth, counts) for read in (old, new))
    sick, well = int((truth.labels == 1).sum()), int((truth.labels == 0).sum())
    marked = int(_localised(truth)[1].sum())
    few = {"auroc": min(sick, well), "pixel_auroc": marked, "dice": marked, "pro": marked}
    images = {"auroc": sick + well, "pixel_auroc": marked + well, "dice": marked, "pro": marked}
    out = {}
    for name in MEASURES:
        known = first[name] is not None and second[name] is not None
        out[name] = {
            "old": first[name],
            "new": second[name],
            "difference": second[name] - first[name] if known else None,
            "interval": boot.interval(redrawn[name] - drawn[name]) if known else None,
            "images": images[name],
            "enough": few[name] >= FEW,
        }
    return out


def _localised(truth: Truth) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lesion pixels (N, S, S), which images have some that count (N,), and which pixels count (N, S, S); all bool."""
    lesion = (truth.masks > 0) & (truth.labels == 1)[:, None, None] & truth.has_mask[:, None, None]
    valid = np.ones(lesion.shape, bool) if truth.roi is None else truth.roi > 0
    return lesion, (lesion & valid).any((1, 2)), valid


def _figures(read: Read, truth: Truth, counts: np.ndarray) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The figures, None where they cannot be had, and those of each draw (times,)."""
    point: dict[str, Any] = dict.fromkeys(MEASURES)
    drawn: dict[str, np.ndarray] = {}
    point["auroc"] = auroc(read.scores, truth.labels)
    if point["auroc"] is not None:
        drawn["auroc"] = boot.detection(read.scores, truth.labels, counts)[0]
    lesion, found, valid = _localised(truth)
    used = np.flatnonzero((truth.labels == 0) | found)
    if not found.any() or read.held.pixels is None:
        return point, drawn
    maps = upsample(read.maps[used], lesion.shape[1:])
    lesion, valid, sick, kept = lesion[used], valid[used], np.flatnonzero(found[used]), counts[:, used]
    dice = overlaps(maps[sick], lesion[sick], read.held.pixels.threshold, valid[sick])[0]
    point["dice"], drawn["dice"] = float(dice.mean()), boot.means(dice, kept[:, sick])
    point["pro"] = pro(maps[sick], lesion[sick], valid[sick])
    weights, regions = region_weights(lesion, valid)
    heavy, light = boot.histograms(maps, weights, valid & ~lesion)
    heavy, regions, healthy = (kept[:, sick] @ x[sick].astype(np.float32) for x in (heavy, regions, light))
    drawn["pro"] = boot.pros(heavy, regions, healthy)
    point["pixel_auroc"] = pixel_auroc(maps, lesion, valid)
    heavy = boot.histograms(maps, (lesion & valid).astype(np.float32), valid & ~lesion)[0]
    drawn["pixel_auroc"] = boot.aurocs(kept @ light, kept @ heavy)
    return point, drawn

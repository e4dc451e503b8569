"""Figures of how well heat maps find lesions.

Throughout, maps are float32 (N, S, S), masks 0/1 (N, S, S), and valid bool (N, S, S), the pixels that count, or None.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np

from core.engine.calibration.heatmap import upsample
from core.engine.calibration.outlines import level_of, outlined, peaks
from core.engine.calibration.percentiles import PixelScale
from core.engine.metrics.detection import auroc
from core.engine.rows import Rows

LEVELS = 1024  # candidate thresholds of `best_dice`, at even ranks of the pixels' values


def pixel_auroc(maps: np.ndarray, masks: np.ndarray, valid: np.ndarray | None = None) -> float | None:
    """Computes the AUROC over the pixels of all images; None without a lesion pixel or without any other pixel."""
    if valid is None:
        return auroc(maps, masks)
    return auroc(maps[valid], masks[valid])


def overlaps_of(
    marked: np.ndarray, masks: np.ndarray, valid: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Computes Dice and IoU of each image, (N,) each, NaN for images without a lesion pixel that counts.

    marked: bool (N, S, S), the predicted pixels, all of them valid.
    """
    masks = masks > 0 if valid is None else (masks > 0) & valid
    both, marked_area, lesion_area = (np.count_nonzero(x, axis=(1, 2)) for x in (marked & masks, marked, masks))
    with np.errstate(invalid="ignore", divide="ignore"):
        dice = np.where(lesion_area > 0, 2 * both / (marked_area + lesion_area), np.nan)
        iou = np.where(lesion_area > 0, both / (marked_area + lesion_area - both), np.nan)
    return dice, iou


def best_dice(maps: np.ndarray, masks: np.ndarray, valid: np.ndarray | None = None) -> tuple[float, float]:
    """Returns the threshold with the highest mean Dice over the images with a lesion, and that Dice.

    As it uses the masks, it is optimistic unless it is then applied to other images. LEVELS thresholds are compared.

    Raises ValueError if no image has a lesion pixel.
    """
    inside = np.ones(maps.shape, bool) if valid is None else valid
    lesion = (masks > 0) & inside
    with_lesion = lesion.reshape(len(maps), -1).any(1)
    if not with_lesion.any():
        raise ValueError("the best Dice needs at least one image with a lesion mask")
    maps, inside, lesion = maps[with_lesion], inside[with_lesion], lesion[with_lesion]
    levels = np.unique(np.quantile(maps[inside], np.linspace(0, 1, LEVELS)).astype(maps.dtype))
    n, k = len(maps), len(levels)
    # The number of levels below each pixel, which is predicted at exactly those.
    under = np.searchsorted(levels, maps.reshape(n, -1), side="left")
    cell = under + np.arange(n)[:, None] * (k + 1)

    def above(chosen: np.ndarray) -> np.ndarray:
        counts = np.bincount(cell[chosen.reshape(n, -1)], minlength=n * (k + 1)).reshape(n, k + 1)
        return counts[:, ::-1].cumsum(1)[:, ::-1][:, 1:]  # (n, k): pixels above each level

    size = lesion.reshape(n, -1).sum(1)[:, None]
    dice = (2 * above(lesion) / (above(inside) + size)).mean(0)
    best = int(dice.argmax())
    return float(levels[best]), float(dice[best])


# PRO, the per-region overlap (Bergmann et al. 2020, Sec. evaluation measures), in which all lesions have equal weight.
#
# The overlap at a threshold is the share of each connected region of the lesion masks that is predicted, averaged over
# all regions of all images. PRO is the area under its curve over the false positive rate from 0 to `limit`, divided by
# `limit`.


LIMIT = 0.3


def region_weights(masks: np.ndarray, valid: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Computes weights float64 (N, S, S) that sum up to 1 in each region, and the number of regions, int (N,).

    A lesion pixel has the weight 1 / (valid pixels of its region), any other pixel 0. Regions are 8-connected in the
    whole mask; those without a valid pixel do not count.
    """
    weights, regions = np.zeros(masks.shape), np.zeros(len(masks), np.int64)
    for i, mask in enumerate(masks):
        if not mask.any():
            continue
        count, labels = cv2.connectedComponents((mask > 0).astype(np.uint8), connectivity=8)
        if valid is not None:
            labels[~valid[i]] = 0
        areas = np.bincount(labels.ravel(), minlength=count).astype(float)
        areas[0] = np.inf
        areas[areas == 0] = np.inf
        weights[i] = (1 / areas)[labels]
        regions[i] = np.isfinite(areas).sum()
    return weights, regions


def pro(maps: np.ndarray, masks: np.ndarray, valid: np.ndarray | None = None, limit: float = LIMIT) -> float | None:
    """Computes PRO (per-region overlap, 0 to 1) exactly, with every map value as a threshold, interpolated linearly.

    limit: highest false positive rate, over the `valid` pixels outside lesions. Returns None if no pixel is in a lesion
    or all are.
    """
    weights, regions = region_weights(masks, valid)
    inside = np.ones(maps.shape, bool) if valid is None else valid
    healthy = maps[inside & (masks == 0)]
    lesion = inside & (masks > 0)
    if not regions.sum() or not len(healthy):
        return None
    # Pixels below the threshold at which the false positive rate reaches the limit do not affect the area.
    count = min(len(healthy), int(np.floor(limit * len(healthy))) + 1)
    floor = np.partition(healthy, len(healthy) - count)[len(healthy) - count]
    healthy = healthy[healthy >= floor]
    scores, weight = maps[lesion], weights[lesion]
    weight, scores = weight[scores >= floor], scores[scores >= floor]
    # The curve has a corner before and after each value of a lesion pixel; between them only false positives increase.
    healthy, values = np.sort(healthy), np.unique(scores)
    gained = np.append(0.0, np.bincount(np.searchsorted(values, scores), weight, minlength=len(values))[::-1].cumsum())
    before, after = (len(healthy) - np.searchsorted(healthy, values, side)[::-1] for side in ("right", "left"))
    false = np.append(np.stack([before, after], 1).ravel(), len(healthy))
    overlap = np.append(np.stack([gained[:-1], gained[1:]], 1).ravel(), gained[-1])
    total = np.count_nonzero(inside & (masks == 0))
    return area_to(false / total, overlap / regions.sum(), limit)


def area_to(x: np.ndarray, y: np.ndarray, limit: float) -> float:
    """Computes the area under the line through (0, 0) and the points (x, y) up to `limit`, divided by `limit`.

    x must be ascending.
    """
    x, y = np.concatenate([[0.0], x]), np.concatenate([[0.0], y])
    if x[-1] > limit:
        cut = int(np.searchsorted(x, limit, side="right"))  # the first point beyond
        at = y[cut - 1] + (y[cut] - y[cut - 1]) * (limit - x[cut - 1]) / (x[cut] - x[cut - 1])
        x, y = np.append(x[:cut], limit), np.append(y[:cut], at)
    return float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum() / limit)


# Heat maps and lesion masks, read a few images at a time from memory or files.


BLOCK = 64  # images read at once


class CannotEvaluate(ValueError):
    """Raised if an input that the figures need is missing or invalid; the message says which."""


@dataclass(frozen=True)
class Pixels:
    """Heat maps and lesion masks of N images.

    maps: float (N, h, w) at their own resolution. masks: uint8 (N, S, S). labels: (N,), 1 if abnormal. roi: uint8
    (N, S, S), outside of which pixels are ignored, or None.
    """

    maps: Rows
    masks: Rows
    labels: np.ndarray
    roi: Rows | None = None

    def read(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reads images `index` (n,): maps float32 (n, S, S), lesion bool (n, S, S), valid bool (n, S, S).

        Raises CannotEvaluate if a map holds a value that is not finite.
        """
        lesion, valid = self.regions(index)
        maps = upsample(np.asarray(self.maps[index]), lesion.shape[1:])
        if not np.isfinite(maps).all():
            raise CannotEvaluate("the heat maps hold values that are not finite")
        return maps, lesion, valid

    def outlined(self, index: np.ndarray, maps: np.ndarray, valid: np.ndarray, scale: PixelScale) -> np.ndarray:
        """Computes the outlines of images `index` (n,), bool (n, S, S), given their `maps` and `valid` by `read`."""
        cells = np.asarray(self.maps[index])
        highest = peaks(cells, None if self.roi is None else np.asarray(self.roi[index]), scale)
        return outlined(maps, level_of(highest, scale), scale, valid)

    def regions(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lesion = (np.asarray(self.masks[index]) > 0) & (self.labels[index] == 1)[:, None, None]
        return lesion, np.ones(lesion.shape, bool) if self.roi is None else np.asarray(self.roi[index]) > 0

    def lesions(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns which images have a lesion pixel, and which have one that counts: two arrays bool (N,)."""
        marked, counted = np.zeros(len(self.labels), bool), np.zeros(len(self.labels), bool)
        for rows in blocks(np.flatnonzero(self.labels == 1)):
            lesion, valid = self.regions(rows)
            marked[rows], counted[rows] = lesion.any((1, 2)), (lesion & valid).any((1, 2))
        return marked, counted


def blocks(index: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(index), BLOCK):
        yield index[start : start + BLOCK]

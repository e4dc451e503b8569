"""Metrics for how well heat maps localise lesions.

In all functions, maps are float32 `(N, S, S)`, masks `(N, S, S)` of 0 and 1, and `valid` is bool `(N, S, S)`, True for
the pixels that are evaluated, or None for all pixels.
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

LEVELS = 1024  # number of thresholds that `best_dice` compares, evenly spaced quantiles of the pixel values


def pixel_auroc(maps: np.ndarray, masks: np.ndarray, valid: np.ndarray | None = None) -> float | None:
    """Computes the AUROC over the pixels of all images, or returns None if all or none show a lesion."""
    if valid is None:
        return auroc(maps, masks)
    return auroc(maps[valid], masks[valid])


def overlaps_of(
    marked: np.ndarray, masks: np.ndarray, valid: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Computes Dice and IoU of each image, two arrays `(N,)`; NaN for images without an evaluated lesion pixel.

    `marked`, bool `(N, S, S)`, is the predicted mask; its pixels must be inside `valid`.
    """
    masks = masks > 0 if valid is None else (masks > 0) & valid
    both, marked_area, lesion_area = (np.count_nonzero(x, axis=(1, 2)) for x in (marked & masks, marked, masks))
    with np.errstate(invalid="ignore", divide="ignore"):
        dice = np.where(lesion_area > 0, 2 * both / (marked_area + lesion_area), np.nan)
        iou = np.where(lesion_area > 0, both / (marked_area + lesion_area - both), np.nan)
    return dice, iou


def best_dice(maps: np.ndarray, masks: np.ndarray, valid: np.ndarray | None = None) -> tuple[float, float]:
    """Returns the threshold with the highest mean Dice over the images with a lesion, and this mean Dice.

    The threshold is fitted to the masks, so the Dice is optimistic; apply the threshold to other images. Raises
    ValueError if no image has an evaluated lesion pixel.
    """
    inside = np.ones(maps.shape, bool) if valid is None else valid
    lesion = (masks > 0) & inside
    with_lesion = lesion.reshape(len(maps), -1).any(1)
    if not with_lesion.any():
        raise ValueError("the best Dice needs at least one image with a lesion mask")
    maps, inside, lesion = maps[with_lesion], inside[with_lesion], lesion[with_lesion]
    levels = np.unique(np.quantile(maps[inside], np.linspace(0, 1, LEVELS)).astype(maps.dtype))
    n, k = len(maps), len(levels)
    # A pixel is predicted at exactly the thresholds below its value, which are counted here.
    under = np.searchsorted(levels, maps.reshape(n, -1), side="left")
    cell = under + np.arange(n)[:, None] * (k + 1)

    def above(chosen: np.ndarray) -> np.ndarray:
        counts = np.bincount(cell[chosen.reshape(n, -1)], minlength=n * (k + 1)).reshape(n, k + 1)
        return counts[:, ::-1].cumsum(1)[:, ::-1][:, 1:]  # number of pixels above each level, (n, k)

    size = lesion.reshape(n, -1).sum(1)[:, None]
    dice = (2 * above(lesion) / (above(inside) + size)).mean(0)
    best = int(dice.argmax())
    return float(levels[best]), float(dice[best])


# PRO, the per-region overlap (Bergmann et al. 2020, Sec. evaluation measures), gives all lesions equal weight: the
# overlap at a threshold is the predicted fraction of each connected lesion region, averaged over all regions of all
# images. PRO is the area under the curve of the overlap over the false positive rate from 0 to `limit`, over `limit`.

LIMIT = 0.3


def region_weights(masks: np.ndarray, valid: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Returns pixel weights float64 `(N, S, S)` that sum to 1 over each lesion region, and region counts `(N,)`.

    Each evaluated lesion pixel is weighted by 1 / (number of evaluated pixels in its region), other pixels by 0.
    Regions are the 8-connected components of the entire mask; regions without an evaluated pixel are ignored.
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
    """Computes PRO (per-region overlap, 0 to 1) exactly: every map value is used as a threshold.

    The curve is interpolated linearly and integrated up to a false positive rate of `limit`. The rate is computed
    over evaluated pixels outside lesions. Returns None without evaluated pixels inside and outside lesions.
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
    # The curve has corners just before and at each lesion pixel's value; between them only false positives increase.
    healthy, values = np.sort(healthy), np.unique(scores)
    gained = np.append(0.0, np.bincount(np.searchsorted(values, scores), weight, minlength=len(values))[::-1].cumsum())
    before, after = (len(healthy) - np.searchsorted(healthy, values, side)[::-1] for side in ("right", "left"))
    false = np.append(np.stack([before, after], 1).ravel(), len(healthy))
    overlap = np.append(np.stack([gained[:-1], gained[1:]], 1).ravel(), gained[-1])
    total = np.count_nonzero(inside & (masks == 0))
    return area_to(false / total, overlap / regions.sum(), limit)


def area_to(x: np.ndarray, y: np.ndarray, limit: float) -> float:
    """Returns the area under the polyline from (0, 0) through the points (x, y) up to x = `limit`, divided by `limit`.

    The values of `x` must be in ascending order.
    """
    x, y = np.concatenate([[0.0], x]), np.concatenate([[0.0], y])
    if x[-1] > limit:
        cut = int(np.searchsorted(x, limit, side="right"))  # the first point beyond `limit`
        at = y[cut - 1] + (y[cut] - y[cut - 1]) * (limit - x[cut - 1]) / (x[cut] - x[cut - 1])
        x, y = np.append(x[:cut], limit), np.append(y[:cut], at)
    return float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum() / limit)


BLOCK = 64  # number of images that are read at once, from memory or from files


class CannotEvaluate(ValueError):
    """Raised if an input of an evaluation is missing or invalid. The message names the input."""


@dataclass(frozen=True)
class Pixels:
    """Heat maps and lesion masks of N images.

    Attributes:
        maps: `(N, h, w)` heat maps at the detector's own resolution.
        masks: uint8 `(N, S, S)` lesion masks.
        labels: `(N,)` labels, 1 for abnormal and 0 for normal images.
        roi: uint8 `(N, S, S)` regions of interest; pixels outside are ignored. Defaults to all pixels.
    """

    maps: Rows
    masks: Rows
    labels: np.ndarray
    roi: Rows | None = None

    def read(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns maps (float32), lesion pixels (bool) and evaluated pixels (bool) of images `index`, each `(n, S, S)`.

        Raises CannotEvaluate if a map contains NaN or infinity.
        """
        lesion, valid = self.regions(index)
        maps = upsample(np.asarray(self.maps[index]), lesion.shape[1:])
        if not np.isfinite(maps).all():
            raise CannotEvaluate("the heat maps hold values that are not finite")
        return maps, lesion, valid

    def outlined(self, index: np.ndarray, maps: np.ndarray, valid: np.ndarray, scale: PixelScale) -> np.ndarray:
        """Returns the outlined pixels of images `index`, bool `(n, S, S)`, given their maps and evaluated pixels."""
        cells = np.asarray(self.maps[index])
        highest = peaks(cells, None if self.roi is None else np.asarray(self.roi[index]), scale)
        return outlined(maps, level_of(highest, scale), scale, valid)

    def regions(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the lesion pixels and the evaluated pixels of images `index`, two bool arrays `(n, S, S)`."""
        lesion = (np.asarray(self.masks[index]) > 0) & (self.labels[index] == 1)[:, None, None]
        return lesion, np.ones(lesion.shape, bool) if self.roi is None else np.asarray(self.roi[index]) > 0

    def lesions(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns which images have a lesion pixel and which have an evaluated lesion pixel: two bool arrays `(N,)`."""
        marked, counted = np.zeros(len(self.labels), bool), np.zeros(len(self.labels), bool)
        for rows in blocks(np.flatnonzero(self.labels == 1)):
            lesion, valid = self.regions(rows)
            marked[rows], counted[rows] = lesion.any((1, 2)), (lesion & valid).any((1, 2))
        return marked, counted


def blocks(index: np.ndarray) -> Iterator[np.ndarray]:
    """Yields consecutive blocks of at most BLOCK indices."""
    for start in range(0, len(index), BLOCK):
        yield index[start : start + BLOCK]

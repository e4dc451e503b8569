"""PRO, the per-region overlap (Bergmann et al. 2020, Sec. evaluation measures): large and small lesions count alike.

At a threshold: the part of each connected region of the lesion masks that is marked, averaged over all regions of all
images. PRO is the area under that against the false positive rate, from 0 to `limit`, over `limit`.
"""

from __future__ import annotations

import cv2
import numpy as np

LIMIT = 0.3


def region_weights(masks: np.ndarray, valid: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """masks 0/1 (N, S, S) -> weights float64 (N, S, S), regions int (N,).

    A lesion pixel weighs 1 / (pixels of its region that count), so each region weighs 1; every other pixel weighs 0.
    Regions are 8-connected and found before `valid` takes pixels away; one with no pixel left is no region.
    """
    weights, regions = np.zeros(masks.shape), np.zeros(len(masks), np.int64)
    for i, mask in enumerate(masks):
        if not mask.any():
            continue
        count, parts = cv2.connectedComponents((mask > 0).astype(np.uint8), connectivity=8)
        if valid is not None:
            parts[~valid[i]] = 0
        areas = np.bincount(parts.ravel(), minlength=count).astype(float)
        areas[0] = np.inf
        areas[areas == 0] = np.inf
        weights[i] = (1 / areas)[parts]
        regions[i] = np.isfinite(areas).sum()
    return weights, regions


def pro(maps: np.ndarray, masks: np.ndarray, valid: np.ndarray | None = None, limit: float = LIMIT) -> float | None:
    """maps float (N, S, S), masks 0/1, valid bool or None -> 0..1, exact: every value of the maps is a threshold.

    The false positive rate is over the pixels of these images that are in no lesion mask. The curve is joined by
    straight lines. None if there is no region, or no other pixel.
    """
    weights, regions = region_weights(masks, valid)
    inside = np.ones(maps.shape, bool) if valid is None else valid
    healthy = maps[inside & (masks == 0)]
    lesion = inside & (masks > 0)
    if not regions.sum() or not len(healthy):
        return None
    # only what lies above the threshold at which the false positive rate reaches the limit has a part in the area
    kept = min(len(healthy), int(np.floor(limit * len(healthy))) + 1)
    floor = np.partition(healthy, len(healthy) - kept)[len(healthy) - kept]
    healthy = healthy[healthy >= floor]
    scores, weight = maps[lesion], weights[lesion]
    weight, scores = weight[scores >= floor], scores[scores >= floor]
    values = np.concatenate([healthy, scores])
    order = np.argsort(-values, kind="stable")
    last = np.flatnonzero(np.diff(values[order], append=np.nan))
    false = np.cumsum(np.concatenate([np.ones(len(healthy)), np.zeros(len(scores))])[order])[last]
    overlap = np.cumsum(np.concatenate([np.zeros(len(healthy)), weight])[order])[last]
    total = np.count_nonzero(inside & (masks == 0))
    return area_to(false / total, overlap / regions.sum(), limit)


def area_to(x: np.ndarray, y: np.ndarray, limit: float) -> float:
    """Area under the line through (0, 0) and the points (x, y), x not falling, from 0 to `limit`, over `limit`."""
    x, y = np.concatenate([[0.0], x]), np.concatenate([[0.0], y])
    if x[-1] > limit:
        cut = int(np.searchsorted(x, limit, side="right"))  # the first point beyond
        at = y[cut - 1] + (y[cut] - y[cut - 1]) * (limit - x[cut - 1]) / (x[cut] - x[cut - 1])
        x, y = np.append(x[:cut], limit), np.append(y[:cut], at)
    return float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum() / limit)

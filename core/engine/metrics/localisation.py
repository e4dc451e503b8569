"""How well heat maps find lesions: overlap of what lies above a threshold with the lesion mask.

Everywhere: maps float32 (N, S, S), masks 0/1 (N, S, S), valid bool (N, S, S) or None: pixels that count.
"""

from __future__ import annotations

import numpy as np

from core.engine.metrics.detection import auroc

LEVELS = 1024  # thresholds tried by `best_dice`, evenly spread over the pixels' ranks


def pixel_auroc(maps: np.ndarray, masks: np.ndarray, valid: np.ndarray | None = None) -> float | None:
    """AUROC over all pixels of all images together; None if there is no lesion pixel or no other."""
    if valid is None:
        return auroc(maps, masks)
    return auroc(maps[valid], masks[valid])


def overlaps(
    maps: np.ndarray, masks: np.ndarray, threshold: float, valid: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Dice and IoU of each image, two arrays (N,): NaN where an image has no lesion pixel that counts."""
    return overlaps_of(maps > threshold if valid is None else (maps > threshold) & valid, masks, valid)


def overlaps_of(
    marked: np.ndarray, masks: np.ndarray, valid: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """As `overlaps`, of what is marked, bool (N, S, S); nothing is marked that is not valid."""
    masks = masks > 0 if valid is None else (masks > 0) & valid
    both, one, other = (np.count_nonzero(x, axis=(1, 2)) for x in (marked & masks, marked, masks))
    with np.errstate(invalid="ignore", divide="ignore"):
        dice = np.where(other > 0, 2 * both / (one + other), np.nan)
        iou = np.where(other > 0, both / (one + other - both), np.nan)
    return dice, iou


def best_dice(maps: np.ndarray, masks: np.ndarray, valid: np.ndarray | None = None) -> tuple[float, float]:
    """(threshold, mean Dice there): the one threshold for all these images that gives the highest mean Dice.

    It looks at the masks, so it is an optimistic reading unless other images are then judged by it.
    Tried: LEVELS thresholds at even ranks of the pixels' values. ValueError if no image has a lesion pixel.
    """
    inside = np.ones(maps.shape, bool) if valid is None else valid
    lesion = (masks > 0) & inside
    kept = lesion.reshape(len(maps), -1).any(1)
    if not kept.any():
        raise ValueError("the best Dice needs at least one image with a lesion mask")
    maps, inside, lesion = maps[kept], inside[kept], lesion[kept]
    levels = np.unique(np.quantile(maps[inside], np.linspace(0, 1, LEVELS)).astype(maps.dtype))
    n, k = len(maps), len(levels)
    # number of levels below each pixel: it is marked at exactly those
    under = np.searchsorted(levels, maps.reshape(n, -1), side="left")
    cell = under + np.arange(n)[:, None] * (k + 1)

    def above(chosen: np.ndarray) -> np.ndarray:
        counts = np.bincount(cell[chosen.reshape(n, -1)], minlength=n * (k + 1)).reshape(n, k + 1)
        return counts[:, ::-1].cumsum(1)[:, ::-1][:, 1:]  # (n, k): pixels above each level

    size = lesion.reshape(n, -1).sum(1)[:, None]
    dice = (2 * above(lesion) / (above(inside) + size)).mean(0)
    best = int(dice.argmax())
    return float(levels[best]), float(dice[best])

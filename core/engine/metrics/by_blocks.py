"""The figures of more heat maps than memory holds: one pass, a few images at a time.

Pixels are counted in bins that hold about equally many, with ties counting half, as in an exact AUROC: a figure is
then within half of the largest bin's share of the normal pixels. Dice and IoU are exact.
"""

from __future__ import annotations

import numpy as np

from core.engine.calibration.percentiles import PixelScale
from core.engine.metrics import bootstrap as boot
from core.engine.metrics.at_once import Measured
from core.engine.metrics.localisation import overlaps_of
from core.engine.metrics.pixels import BLOCK, Pixels, blocks
from core.engine.metrics.pro import region_weights

BINS = 2**15
SEEN = 2000  # images whose maps' cells say where the bins end


def by_blocks(
    pixels: Pixels, used: np.ndarray, found: np.ndarray, scale: PixelScale, counts: np.ndarray | None = None
) -> Measured:
    """As `at_once`, within 1e-4 of it; memory does not grow with the number of images."""
    edges = _edges(pixels, used)
    coarse = np.arange(0, len(edges) + 1, -(-(len(edges) + 1) // boot.BINS))
    times = 0 if counts is None else len(counts)
    # four rows: healthy pixels of all images, lesion pixels, then of images with a lesion: healthy pixels and weights
    total, drawn = np.zeros((4, len(edges) + 1)), np.zeros((4, times, len(coarse)))
    regions_drawn = np.zeros(times)
    dice, iou, share, regions = [], [], [], 0
    for part in blocks(np.arange(len(used))):
        maps, lesion, valid = pixels.read(used[part])
        weights, of_each = region_weights(lesion, valid)
        binned = np.stack(
            [_binned(m, s & v, v & ~s, w, edges) for m, s, v, w in zip(maps, lesion, valid, weights, strict=True)], 1
        )
        sick = found[part]
        binned[2:, ~sick] = 0
        total += binned.sum(1)
        regions += int(of_each[sick].sum())
        marked = pixels.outlined(used[part][sick], maps[sick], valid[sick], scale)
        overlap = overlaps_of(marked, lesion[sick], valid[sick])
        share.append(marked.sum((1, 2)) / valid[sick].sum((1, 2)))
        dice.append(overlap[0])
        iou.append(overlap[1])
        if counts is not None:
            its = counts[:, part].astype(np.float64)
            drawn += its @ np.add.reduceat(binned, coarse, axis=2)
            regions_drawn += its[:, sick] @ of_each[sick]
    light, heavy, its_light, weight = (row[None] for row in total)
    figures = (
        float(boot.aurocs(light, heavy)[0]) if light.any() and heavy.any() else None,
        float(boot.pros(weight, np.array([regions]), its_light)[0]) if regions and its_light.any() else None,
    )
    measured = Measured(np.concatenate(dice), np.concatenate(iou), np.concatenate(share), *figures)
    if counts is None:
        return measured
    light, heavy, its_light, weight = drawn
    draws = (boot.aurocs(light, heavy), boot.pros(weight, regions_drawn, its_light))
    return Measured(measured.dice, measured.iou, measured.share, *figures, *draws)


def _edges(pixels: Pixels, used: np.ndarray) -> np.ndarray:
    """Ascending float32 (at most BINS - 1,): ends of the bins, at even ranks of the maps' own cells."""
    some = used[:: max(1, -(-len(used) // SEEN))]
    cells = np.concatenate([np.asarray(pixels.maps[part], np.float32).ravel() for part in blocks(some)])
    cells = cells[:: max(1, len(cells) // (BINS * BLOCK))]
    return np.unique(np.quantile(cells[np.isfinite(cells)], np.linspace(0, 1, BINS + 1)[1:-1]).astype(np.float32))


def _binned(
    heat: np.ndarray, lesion: np.ndarray, healthy: np.ndarray, weights: np.ndarray, edges: np.ndarray
) -> np.ndarray:
    """One image's (S, S) -> float64 (4, bins): healthy pixels, lesion pixels, healthy pixels again, region weights.

    Sorted first: searching sorted values for the bins' ends takes a tenth of searching the ends for each value.
    """
    ascending = np.sort(heat[healthy])
    light = np.diff(np.searchsorted(ascending, edges, side="right"), prepend=0, append=len(ascending))
    cell = np.searchsorted(edges, heat[lesion])
    heavy, weight = (np.bincount(cell, w, minlength=len(edges) + 1) for w in (None, weights[lesion]))
    return np.stack([light, heavy, light, weight]).astype(np.float64)

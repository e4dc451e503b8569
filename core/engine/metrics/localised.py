"""Computes the localisation metrics in a row of the report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.engine.calibration.percentiles import PixelScale
from core.engine.metrics import bootstrap as boot
from core.engine.metrics.detection import validation_draw
from core.engine.metrics.localisation import (
    BLOCK,
    Pixels,
    best_dice,
    blocks,
    overlaps_of,
    pixel_auroc,
    pro,
    region_weights,
)

GROUPS, GROUP = 5, 100  # Hyper-Kvasir's localisation figures: five random groups of 100 abnormal images
NAMES = ("pixel_auroc", "dice", "iou", "pro", "pro_all")
EMPTY = dict.fromkeys(
    [*NAMES, *(f"{n}_ci" for n in NAMES), "pixel_threshold", "outline_share", "outlined", "five_groups"]
) | {"n_localised": 0}
MOST = 2**24  # number of pixels above which images are read in blocks, which takes half the time and memory


def localisation(
    pixels: Pixels, has_mask: np.ndarray | None, scale: PixelScale | None, seed: int, counts: np.ndarray | None
) -> dict[str, Any]:
    """Computes the localisation metrics of a report row, or returns `EMPTY` if no lesion pixel is evaluated.

    Args:
        pixels: Maps and masks of N images.
        has_mask: bool `(N,)`, True for abnormal images with a known mask. None selects images with a lesion pixel.
        scale: Scale that defines the outlines. None selects the threshold with the highest Dice on a sample of images.
        seed: Random seed.
        counts: `(times, N)` number of occurrences of each image in each bootstrap sample, or None for no intervals.
    """
    marked, counted = pixels.lesions()
    annotated = marked if has_mask is None else np.asarray(has_mask, bool)
    used = np.flatnonzero((pixels.labels == 0) | annotated)
    with_lesion = counted[used]
    if not with_lesion.any():
        return dict(EMPTY)
    if scale is None:
        level = best_dice(*pixels.read(used[validation_draw(pixels.labels[used], seed, eligible=with_lesion)]))[0]
        scale = PixelScale(level, level, level)
    few = len(used) * math.prod(pixels.masks.shape[1:]) <= MOST
    used_counts = None if counts is None else counts[:, used]
    measured = (at_once if few else by_blocks)(pixels, used, with_lesion, scale, used_counts)
    row = dict.fromkeys(f"{n}_ci" for n in NAMES) | {
        "pixel_auroc": measured.pixel_auroc,
        "dice": float(measured.dice.mean()),
        "iou": float(measured.iou.mean()),
        "pro": measured.pro,
        "pro_all": measured.pro_all,
        "five_groups": _five_groups(pixels, used[with_lesion], measured.dice, measured.iou, seed),
    }
    if used_counts is not None:
        for name, values in (("dice", measured.dice), ("iou", measured.iou)):
            row[f"{name}_ci"] = boot.interval(boot.means(values, used_counts[:, with_lesion]))
        for name, draws in (
            ("pro", measured.pros),
            ("pro_all", measured.pros_all),
            ("pixel_auroc", measured.pixel_aurocs),
        ):
            row[f"{name}_ci"] = None if draws is None else boot.interval(draws)
    levels = {"pixel_threshold": float(scale.threshold), "outline_share": scale.share}
    return row | levels | {"outlined": float(measured.share.mean()), "n_localised": int(with_lesion.sum())}


def _five_groups(
    pixels: Pixels, sick: np.ndarray, dice: np.ndarray, iou: np.ndarray, seed: int
) -> dict[str, Any] | None:
    """Computes mean and standard deviation over five random groups of 100 images, or of half if there are below 200."""
    n = len(sick)
    size = min(GROUP, n // 2)
    if size < 2:
        return None
    rng = np.random.default_rng([seed, GROUPS])
    picks = [np.sort(rng.permutation(n)[:size]) for _ in range(GROUPS)]
    values = {
        "dice": [dice[p].mean() for p in picks],
        "iou": [iou[p].mean() for p in picks],
        "pro": [pro(*pixels.read(sick[p])) for p in picks],
    }
    summary = {k: {"mean": float(np.mean(v)), "std": float(np.std(v, ddof=1))} for k, v in values.items()}
    return {"size": size, "groups": GROUPS} | summary


@dataclass(frozen=True)
class Measured:
    """Localisation metrics of a test set and of its bootstrap samples; undefined metrics are None.

    Attributes:
        dice, iou: `(n,)` overlap of prediction and mask in each image with an evaluated lesion pixel.
        share: `(n,)` fraction of evaluated pixels that are outlined, in the same images.
        pro: PRO (per-region overlap) with false positives of images with a lesion only, as in the paper.
        pro_all: PRO with the false positives of all images, as in MVTec's evaluation.
        pixel_aurocs, pros, pros_all: `(times,)` values of the bootstrap samples.
    """

    dice: np.ndarray
    iou: np.ndarray
    share: np.ndarray
    pixel_auroc: float | None
    pro: float | None
    pro_all: float | None
    pixel_aurocs: np.ndarray | None = None
    pros: np.ndarray | None = None
    pros_all: np.ndarray | None = None


def at_once(
    pixels: Pixels, used: np.ndarray, with_lesion: np.ndarray, scale: PixelScale, counts: np.ndarray | None = None
) -> Measured:
    """Computes the metrics exactly, with all heat maps in memory.

    Args:
        pixels: Maps and masks of all images.
        used: `(n,)` indices of the evaluated images.
        with_lesion: bool `(n,)`, whether each evaluated image has an evaluated lesion pixel.
        scale: Scale that defines the outlines.
        counts: `(times, n)` number of occurrences of each evaluated image in each bootstrap sample, or None.
    """
    maps, lesion, valid = pixels.read(used)
    sick = np.flatnonzero(with_lesion)
    sick_maps, sick_lesion, sick_valid = maps[sick], lesion[sick], valid[sick]
    marked = pixels.outlined(used[sick], sick_maps, sick_valid, scale)
    dice, iou = overlaps_of(marked, sick_lesion, sick_valid)
    share = marked.sum((1, 2)) / sick_valid.sum((1, 2))
    exact = (
        pixel_auroc(maps, lesion, None if pixels.roi is None else valid),
        pro(sick_maps, sick_lesion, sick_valid),
        pro(maps, lesion, valid),
    )
    if counts is None:
        return Measured(dice, iou, share, *exact)
    weights, regions = region_weights(lesion, valid)
    heavy, light = boot.histograms(maps, weights, valid & ~lesion)
    sick_counts = counts[:, sick]
    region_sums, region_counts, light_sums = (
        sick_counts @ heavy[sick],
        sick_counts @ regions[sick].astype(np.float32),
        counts @ light,
    )
    pros, pros_all = (
        boot.pros(region_sums, region_counts, healthy) for healthy in (sick_counts @ light[sick], light_sums)
    )
    heavy = boot.histograms(maps, (lesion & valid).astype(np.float32), valid & ~lesion)[0]
    return Measured(dice, iou, share, *exact, boot.aurocs(light_sums, counts @ heavy), pros, pros_all)


# `by_blocks` reads heat maps that do not fit in memory once, a few images at a time. Pixels are counted in bins of
# about equal size, with ties counting half, as in an exact AUROC. The error is at most half of the largest fraction of
# normal pixels that falls into one bin. Dice and IoU are exact.

BINS = 2**15
EDGE_IMAGES = 2000  # number of images from which the bin edges are estimated


def by_blocks(
    pixels: Pixels, used: np.ndarray, with_lesion: np.ndarray, scale: PixelScale, counts: np.ndarray | None = None
) -> Measured:
    """Computes the same metrics as `at_once` to within 1e-4; memory use does not grow with the number of images."""
    edges = _edges(pixels, used)
    coarse = np.arange(0, len(edges) + 1, -(-(len(edges) + 1) // boot.BINS))
    times = 0 if counts is None else len(counts)
    # Rows: healthy pixels and lesion pixels of all images, healthy pixels and region weights of images with a lesion.
    total, resampled = np.zeros((4, len(edges) + 1)), np.zeros((4, times, len(coarse)))
    regions_drawn = np.zeros(times)
    dice, iou, share, regions = [], [], [], 0
    for rows in blocks(np.arange(len(used))):
        maps, lesion, valid = pixels.read(used[rows])
        weights, image_regions = region_weights(lesion, valid)
        binned = np.stack(
            [_binned(m, s & v, v & ~s, w, edges) for m, s, v, w in zip(maps, lesion, valid, weights, strict=True)], 1
        )
        sick = with_lesion[rows]
        binned[2:, ~sick] = 0
        total += binned.sum(1)
        regions += int(image_regions[sick].sum())
        marked = pixels.outlined(used[rows][sick], maps[sick], valid[sick], scale)
        overlap = overlaps_of(marked, lesion[sick], valid[sick])
        share.append(marked.sum((1, 2)) / valid[sick].sum((1, 2)))
        dice.append(overlap[0])
        iou.append(overlap[1])
        if counts is not None:
            block_counts = counts[:, rows].astype(np.float64)
            resampled += block_counts @ np.add.reduceat(binned, coarse, axis=2)
            regions_drawn += block_counts[:, sick] @ image_regions[sick]
    light, heavy, sick_light, weight = (row[None] for row in total)
    count = np.array([regions])
    figures = (
        float(boot.aurocs(light, heavy)[0]) if light.any() and heavy.any() else None,
        float(boot.pros(weight, count, sick_light)[0]) if regions and sick_light.any() else None,
        float(boot.pros(weight, count, light)[0]) if regions and light.any() else None,
    )
    measured = Measured(np.concatenate(dice), np.concatenate(iou), np.concatenate(share), *figures)
    if counts is None:
        return measured
    light, heavy, sick_light, weight = resampled
    sick_pros, all_pros = (boot.pros(weight, regions_drawn, healthy) for healthy in (sick_light, light))
    draws = (boot.aurocs(light, heavy), sick_pros, all_pros)
    return Measured(measured.dice, measured.iou, measured.share, *figures, *draws)


def _edges(pixels: Pixels, used: np.ndarray) -> np.ndarray:
    """Returns at most BINS - 1 ascending bin edges, float32, at evenly spaced ranks of the maps' values."""
    sample = used[:: max(1, -(-len(used) // EDGE_IMAGES))]
    cells = np.concatenate([np.asarray(pixels.maps[rows], np.float32).ravel() for rows in blocks(sample)])
    cells = cells[:: max(1, len(cells) // (BINS * BLOCK))]
    return np.unique(np.quantile(cells[np.isfinite(cells)], np.linspace(0, 1, BINS + 1)[1:-1]).astype(np.float32))


def _binned(
    heat: np.ndarray, lesion: np.ndarray, healthy: np.ndarray, weights: np.ndarray, edges: np.ndarray
) -> np.ndarray:
    ascending = np.sort(heat[healthy])  # searching these for the edges is ten times as fast as the other way round
    light = np.diff(np.searchsorted(ascending, edges, side="right"), prepend=0, append=len(ascending))
    cell = np.searchsorted(edges, heat[lesion])
    heavy, weight = (np.bincount(cell, w, minlength=len(edges) + 1) for w in (None, weights[lesion]))
    return np.stack([light, heavy, light, weight]).astype(np.float64)

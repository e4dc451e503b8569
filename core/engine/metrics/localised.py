"""The localisation figures of one row of the report."""

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
MOST = 2**24  # pixels: of more than these, maps are read block by block, which takes half the time and memory by then


def localisation(
    pixels: Pixels, has_mask: np.ndarray | None, scale: PixelScale | None, seed: int, counts: np.ndarray | None
) -> dict[str, Any]:
    """Computes the localisation figures of a report's row.

    has_mask bool (N,): abnormal images whose mask is known (default: those with a lesion pixel); scale: by which
    images are outlined (None: at the one level that is best for a draw of abnormal images); counts (times, N): how
    often each image is drawn.
    """
    marked, counted = pixels.lesions()
    known = marked if has_mask is None else np.asarray(has_mask, bool)
    used = np.flatnonzero((pixels.labels == 0) | known)
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
    """Mean and standard deviation over five random groups of 100 of the images `sick` (n,), or of half of them where
    there are fewer than 200: groups of the whole set would all be the same.
    """
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


# The figures of heat maps that fit into memory together: exact, and the reference of `by_blocks`.


@dataclass(frozen=True)
class Measured:
    """Localisation figures of a test set, and of each draw of its images.

    dice, iou (n,): of each image with a lesion that counts; share (n,): of its valid pixels, those outlined.
    pro: false positives are those of the images with a lesion (PMSACL); pro_all: of all images, normal ones too, as
    MVTec's evaluation has it. pixel_aurocs, pros, pros_all (times,): of each draw, or None.
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
    """Computes the figures of all heat maps together, exactly.

    used (n,): the images that count; with_lesion bool (n,): those of them with a lesion pixel that counts; scale: by
    which they are outlined; counts (times, n): how often each image is drawn for the intervals.
    """
    maps, lesion, valid = pixels.read(used)
    sick = np.flatnonzero(with_lesion)
    its_maps, its_lesion, its_valid = maps[sick], lesion[sick], valid[sick]
    marked = pixels.outlined(used[sick], its_maps, its_valid, scale)
    dice, iou = overlaps_of(marked, its_lesion, its_valid)
    share = marked.sum((1, 2)) / its_valid.sum((1, 2))
    exact = (
        pixel_auroc(maps, lesion, None if pixels.roi is None else valid),
        pro(its_maps, its_lesion, its_valid),
        pro(maps, lesion, valid),
    )
    if counts is None:
        return Measured(dice, iou, share, *exact)
    weights, regions = region_weights(lesion, valid)
    heavy, light = boot.histograms(maps, weights, valid & ~lesion)
    its = counts[:, sick]
    parts, drawn, everywhere = its @ heavy[sick], its @ regions[sick].astype(np.float32), counts @ light
    pros, pros_all = (boot.pros(parts, drawn, healthy) for healthy in (its @ light[sick], everywhere))
    heavy = boot.histograms(maps, (lesion & valid).astype(np.float32), valid & ~lesion)[0]
    return Measured(dice, iou, share, *exact, boot.aurocs(everywhere, counts @ heavy), pros, pros_all)


# The figures of more heat maps than memory holds: one pass, a few images at a time.
#
# Pixels are counted in bins that hold about equally many, with ties counting half, as in an exact AUROC: a figure is
# then within half of the largest bin's share of the normal pixels. Dice and IoU are exact.


BINS = 2**15
SEEN = 2000  # images whose maps' cells say where the bins end


def by_blocks(
    pixels: Pixels, used: np.ndarray, with_lesion: np.ndarray, scale: PixelScale, counts: np.ndarray | None = None
) -> Measured:
    """Computes what `at_once` does, within 1e-4 of it; memory does not grow with the number of images."""
    edges = _edges(pixels, used)
    coarse = np.arange(0, len(edges) + 1, -(-(len(edges) + 1) // boot.BINS))
    times = 0 if counts is None else len(counts)
    # four rows: healthy pixels of all images, lesion pixels, then of images with a lesion: healthy pixels and weights
    total, drawn = np.zeros((4, len(edges) + 1)), np.zeros((4, times, len(coarse)))
    regions_drawn = np.zeros(times)
    dice, iou, share, regions = [], [], [], 0
    for rows in blocks(np.arange(len(used))):
        maps, lesion, valid = pixels.read(used[rows])
        weights, of_each = region_weights(lesion, valid)
        binned = np.stack(
            [_binned(m, s & v, v & ~s, w, edges) for m, s, v, w in zip(maps, lesion, valid, weights, strict=True)], 1
        )
        sick = with_lesion[rows]
        binned[2:, ~sick] = 0
        total += binned.sum(1)
        regions += int(of_each[sick].sum())
        marked = pixels.outlined(used[rows][sick], maps[sick], valid[sick], scale)
        overlap = overlaps_of(marked, lesion[sick], valid[sick])
        share.append(marked.sum((1, 2)) / valid[sick].sum((1, 2)))
        dice.append(overlap[0])
        iou.append(overlap[1])
        if counts is not None:
            its = counts[:, rows].astype(np.float64)
            drawn += its @ np.add.reduceat(binned, coarse, axis=2)
            regions_drawn += its[:, sick] @ of_each[sick]
    light, heavy, its_light, weight = (row[None] for row in total)
    count = np.array([regions])
    figures = (
        float(boot.aurocs(light, heavy)[0]) if light.any() and heavy.any() else None,
        float(boot.pros(weight, count, its_light)[0]) if regions and its_light.any() else None,
        float(boot.pros(weight, count, light)[0]) if regions and light.any() else None,
    )
    measured = Measured(np.concatenate(dice), np.concatenate(iou), np.concatenate(share), *figures)
    if counts is None:
        return measured
    light, heavy, its_light, weight = drawn
    of_sick, of_all = (boot.pros(weight, regions_drawn, healthy) for healthy in (its_light, light))
    draws = (boot.aurocs(light, heavy), of_sick, of_all)
    return Measured(measured.dice, measured.iou, measured.share, *figures, *draws)


def _edges(pixels: Pixels, used: np.ndarray) -> np.ndarray:
    """Ascending float32 (at most BINS - 1,): ends of the bins, at even ranks of the maps' own cells."""
    some = used[:: max(1, -(-len(used) // SEEN))]
    cells = np.concatenate([np.asarray(pixels.maps[rows], np.float32).ravel() for rows in blocks(some)])
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

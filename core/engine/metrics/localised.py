"""The localisation half of a report's row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from core.engine.calibration.percentiles import PixelScale
from core.engine.metrics import bootstrap as boot
from core.engine.metrics.at_once import at_once
from core.engine.metrics.by_blocks import by_blocks
from core.engine.metrics.localisation import best_dice
from core.engine.metrics.pixels import Pixels
from core.engine.metrics.pro import pro
from core.engine.metrics.thresholds import validation_draw

GROUPS, GROUP = 5, 100  # Hyper-Kvasir's localisation figures: five random groups of 100 abnormal images
NAMES = ("pixel_auroc", "dice", "iou", "pro")
EMPTY = dict.fromkeys(
    [*NAMES, *(f"{n}_ci" for n in NAMES), "pixel_threshold", "outline_share", "outlined", "five_groups"]
) | {"n_localised": 0}
MOST = 2**24  # pixels: of more than these, maps are read block by block, which takes half the time and memory by then


def localisation(
    pixels: Pixels, has_mask: np.ndarray | None, scale: PixelScale | None, seed: int, counts: np.ndarray | None
) -> dict[str, Any]:
    """has_mask bool (N,): abnormal images whose mask is known (default: those with a lesion pixel); scale: by
    which images are outlined (None: at the one level that is best for a draw of abnormal images); counts (times, N):
    how often each image is drawn.
    """
    marked, counted = pixels.lesions()
    known = marked if has_mask is None else np.asarray(has_mask, bool)
    used = np.flatnonzero((pixels.labels == 0) | known)
    found = counted[used]
    if not found.any():
        return dict(EMPTY)
    if scale is None:
        level = best_dice(*pixels.read(used[validation_draw(pixels.labels[used], seed, eligible=found)]))[0]
        scale = PixelScale(level, level, level)
    few = len(used) * math.prod(pixels.masks.shape[1:]) <= MOST
    kept = None if counts is None else counts[:, used]
    measured = (at_once if few else by_blocks)(pixels, used, found, scale, kept)
    row = dict.fromkeys(f"{n}_ci" for n in NAMES) | {
        "pixel_auroc": measured.pixel_auroc,
        "dice": float(measured.dice.mean()),
        "iou": float(measured.iou.mean()),
        "pro": measured.pro,
        "five_groups": _five_groups(pixels, used[found], measured.dice, measured.iou, seed),
    }
    if kept is not None:
        for name, values in (("dice", measured.dice), ("iou", measured.iou)):
            row[f"{name}_ci"] = boot.interval(boot.means(values, kept[:, found]))
        for name, draws in (("pro", measured.pros), ("pixel_auroc", measured.pixel_aurocs)):
            row[f"{name}_ci"] = None if draws is None else boot.interval(draws)
    levels = {"pixel_threshold": float(scale.threshold), "outline_share": scale.share}
    return row | levels | {"outlined": float(measured.share.mean()), "n_localised": int(found.sum())}


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

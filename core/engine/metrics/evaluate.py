"""One row of the report: detection and localisation of one detector on one test set, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from core.engine.detectors.calibration import Calibration
from core.engine.detectors.heatmap import upsample
from core.engine.metrics import bootstrap as boot
from core.engine.metrics.detection import auroc, average_precision, rates
from core.engine.metrics.localisation import best_dice, overlaps, pixel_auroc
from core.engine.metrics.pro import pro, region_weights
from core.engine.metrics.thresholds import PIXEL_RULES, PROTOCOLS, most_accurate, validation_draw

GROUPS, GROUP = 5, 100  # Hyper-Kvasir's localisation figures: five random groups of 100 abnormal images
QUANTILE = 95.0  # of held-out normals' scores
PIXEL_QUANTILE = 99.0  # of a usual held-out normal's pixels


class CannotEvaluate(ValueError):
    """What was asked for needs something that was not given; the message says what."""


def evaluate(
    scores: np.ndarray,
    labels: np.ndarray,
    maps: np.ndarray | None = None,
    masks: np.ndarray | None = None,
    has_mask: np.ndarray | None = None,
    roi: np.ndarray | None = None,
    holdout_scores: np.ndarray | None = None,
    holdout_maps: np.ndarray | None = None,
    protocol: str = "held-out",
    pixel_rule: str = "held-out",
    seed: int = 0,
    bootstrap: int = 1000,
    holdout_roi: np.ndarray | None = None,
    patients: np.ndarray | None = None,
    holdout_patients: np.ndarray | None = None,
) -> dict[str, Any]:
    """One row for the report.

    scores (N,), larger is more abnormal; labels (N,) 0/1; maps float (N, h, w) at their own resolution; masks uint8
    (N, S, S); has_mask bool (N,), abnormal images whose mask is known (default: those with a lesion pixel); roi
    uint8 (N, S, S), pixels outside are left out (the scores must have been taken inside already); holdout_*: of
    held-out normals; patients (N,): whose image each is, then intervals are of patients drawn again, not of images,
    and holdout_patients likewise, then the pixel threshold is the median over patients. Image figures are over all
    N. Pixel AUROC is over the normal images and those with a mask; Dice, IoU (means over images) and PRO are over
    the abnormal images with a mask. A figure that cannot be had is None.

    Keys: auroc, ap, sensitivity, specificity, accuracy, pixel_auroc, dice, iou, pro, each with a 95 % bootstrap
    interval under NAME_ci; threshold, pixel_threshold, five_groups, protocol, pixel_rule, roi, n_normal, n_abnormal,
    n_localised, n_patients (None where not given). Thresholds are kept as they are from draw to draw.
    """
    if protocol not in PROTOCOLS or pixel_rule not in PIXEL_RULES:
        raise CannotEvaluate(f"the protocol is one of {PROTOCOLS} and the pixel rule one of {PIXEL_RULES}")
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels).astype(int)
    if len(scores) != len(labels) or not len(scores) or not np.isfinite(scores).all():
        raise CannotEvaluate("an evaluation takes one finite score and one label per image, and at least one image")
    held = _holdout(protocol, pixel_rule, maps, holdout_scores, holdout_maps, holdout_roi, holdout_patients)
    if protocol == "paper" or held is None:  # `_holdout` has refused the other protocol without held-out scores
        drawn = validation_draw(labels, seed)
        threshold = most_accurate(scores[drawn], labels[drawn])
    else:
        threshold = held.threshold(QUANTILE)
    row: dict[str, Any] = {"auroc": auroc(scores, labels), "ap": average_precision(scores, labels)}
    row |= rates(scores, labels, threshold)
    counts = boot.draws(labels, bootstrap, seed, patients) if bootstrap else None
    row |= _detection_intervals(scores, labels, threshold, counts, row)
    row |= _localisation(labels, maps, masks, has_mask, roi, held, pixel_rule, seed, counts)
    return row | {
        "threshold": threshold,
        "protocol": protocol,
        "pixel_rule": pixel_rule,
        "roi": roi is not None,
        "n_normal": int((labels == 0).sum()),
        "n_abnormal": int((labels == 1).sum()),
        "n_patients": None if patients is None else len(np.unique(patients)),
    }


def _holdout(
    protocol: str,
    pixel_rule: str,
    maps: np.ndarray | None,
    scores: np.ndarray | None,
    held_maps: np.ndarray | None,
    roi: np.ndarray | None,
    patients: np.ndarray | None,
) -> Calibration | None:
    if protocol == "held-out" and scores is None:
        raise CannotEvaluate("the held-out protocol needs scores of held-out normals: hold some out, or use 'paper'")
    if pixel_rule == "held-out" and maps is not None and held_maps is None:
        raise CannotEvaluate("the held-out pixel rule needs heat maps of held-out normals, or use 'best-dice'")
    if scores is None and held_maps is None:
        return None
    scores = np.zeros(1) if scores is None else scores
    return Calibration.of(scores, held_maps, roi, patients, image_quantile=QUANTILE, pixel_quantile=PIXEL_QUANTILE)


def _detection_intervals(
    scores: np.ndarray, labels: np.ndarray, threshold: float, counts: np.ndarray | None, row: dict[str, Any]
) -> dict[str, Any]:
    names = ("auroc", "ap", "sensitivity", "specificity", "accuracy")
    if counts is None or row["auroc"] is None:
        return {f"{name}_ci": None for name in names}
    right = (scores > threshold) == labels
    sick = labels == 1
    values = [
        *boot.detection(scores, labels, counts),
        boot.means(right[sick], counts[:, sick]),
        boot.means(right[~sick], counts[:, ~sick]),
        boot.means(right, counts),
    ]
    return {f"{name}_ci": boot.interval(v) for name, v in zip(names, values, strict=True)}


def _localisation(
    labels: np.ndarray,
    maps: np.ndarray | None,
    masks: np.ndarray | None,
    has_mask: np.ndarray | None,
    roi: np.ndarray | None,
    held: Calibration | None,
    pixel_rule: str,
    seed: int,
    counts: np.ndarray | None,
) -> dict[str, Any]:
    names = ("pixel_auroc", "dice", "iou", "pro")
    empty = dict.fromkeys([*names, *(f"{n}_ci" for n in names), "pixel_threshold", "five_groups"]) | {"n_localised": 0}
    if maps is None or masks is None:
        return empty
    lesion = (np.asarray(masks) > 0) & (labels == 1)[:, None, None]
    known = lesion.reshape(len(lesion), -1).any(1) if has_mask is None else np.asarray(has_mask, bool)
    used = np.flatnonzero((labels == 0) | known)
    lesion, labels = lesion[used], labels[used]
    valid = np.ones(lesion.shape, bool) if roi is None else np.asarray(roi)[used] > 0
    found = (lesion & valid).reshape(len(lesion), -1).any(1)
    if not found.any():
        return empty
    maps = upsample(np.asarray(maps)[used], lesion.shape[1:])
    if not np.isfinite(maps).all():
        raise CannotEvaluate("the heat maps hold values that are not finite")
    row: dict[str, Any] = {"pixel_auroc": pixel_auroc(maps, lesion, None if roi is None else valid)}
    if pixel_rule == "best-dice" or held is None or held.pixels is None:
        drawn = validation_draw(labels, seed, eligible=found)
        level = best_dice(maps[drawn], lesion[drawn], valid[drawn])[0]
    else:
        level = held.pixels.threshold
    sick = np.flatnonzero(found)
    its_maps, its_lesion, its_valid = maps[sick], lesion[sick], valid[sick]
    dice, iou = overlaps(its_maps, its_lesion, level, its_valid)
    row |= {"dice": float(dice.mean()), "iou": float(iou.mean()), "pro": pro(its_maps, its_lesion, its_valid)}
    row["five_groups"] = _five_groups(dice, iou, its_maps, its_lesion, its_valid, seed)
    row |= dict.fromkeys(f"{n}_ci" for n in names)
    if counts is not None:
        kept = counts[:, used]
        row["dice_ci"] = boot.interval(boot.means(dice, kept[:, sick]))
        row["iou_ci"] = boot.interval(boot.means(iou, kept[:, sick]))
        weights, regions = region_weights(lesion, valid)
        heavy, light = boot.histograms(maps, weights, valid & ~lesion)
        row["pro_ci"] = boot.interval(boot.pros(heavy[sick], regions[sick], light[sick], kept[:, sick]))
        heavy = boot.histograms(maps, (lesion & valid).astype(np.float32), valid & ~lesion)[0]
        row["pixel_auroc_ci"] = boot.interval(boot.aurocs(kept @ light, kept @ heavy))
    return row | {"pixel_threshold": float(level), "n_localised": len(sick)}


def _five_groups(
    dice: np.ndarray, iou: np.ndarray, maps: np.ndarray, lesion: np.ndarray, valid: np.ndarray, seed: int
) -> dict[str, Any] | None:
    """Mean and standard deviation over five random groups of 100 of these images, or of half of them where there
    are fewer than 200: groups of the whole set would all be the same."""
    n = len(dice)
    size = min(GROUP, n // 2)
    if size < 2:
        return None
    rng = np.random.default_rng([seed, GROUPS])
    picks = [np.sort(rng.permutation(n)[:size]) for _ in range(GROUPS)]
    values = {
        "dice": [dice[p].mean() for p in picks],
        "iou": [iou[p].mean() for p in picks],
        "pro": [pro(maps[p], lesion[p], valid[p]) for p in picks],
    }
    summary = {k: {"mean": float(np.mean(v)), "std": float(np.std(v, ddof=1))} for k, v in values.items()}
    return {"size": size, "groups": GROUPS} | summary

"""Computes a row of the report: metrics of a detector on a test set, with confidence intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from core.engine.calibration.percentiles import Calibration, PixelScale
from core.engine.metrics import bootstrap as boot
from core.engine.metrics.detection import (
    PIXEL_RULES,
    PROTOCOLS,
    auroc,
    average_precision,
    most_accurate,
    rates,
    validation_draw,
)
from core.engine.metrics.localisation import CannotEvaluate, Pixels
from core.engine.metrics.localised import EMPTY, localisation
from core.engine.rows import Rows

QUANTILE = 95.0  # percentile of the scores of held-out normal images that is the image threshold
PIXEL_QUANTILE = 99.0  # percentile of the map of a typical held-out normal image that is the pixel threshold


def evaluate(
    scores: np.ndarray,
    labels: np.ndarray,
    maps: Rows | None = None,
    masks: Rows | None = None,
    has_mask: np.ndarray | None = None,
    roi: Rows | None = None,
    holdout_scores: np.ndarray | None = None,
    holdout_maps: Rows | None = None,
    protocol: str = "held-out",
    pixel_rule: str = "held-out",
    seed: int = 0,
    bootstrap: int = 1000,
    holdout_roi: Rows | None = None,
    patients: np.ndarray | None = None,
    holdout_patients: np.ndarray | None = None,
    outline: PixelScale | None = None,
) -> dict[str, Any]:
    """Evaluates a detector on a test set of N images and returns one row of the report.

    Image metrics use all N images. Pixel AUROC uses normal images and abnormal images with a mask. Dice and IoU (means
    over images) and PRO use only abnormal images with a mask, as in the paper; `pro_all` also includes false positives
    on normal images, as in MVTec's evaluation and anomalib. Bootstrap samples use the same thresholds. Large sets are
    read in blocks.

    Args:
        scores: `(N,)` anomaly scores, larger for more abnormal images, computed inside `roi` if given.
        labels: `(N,)` labels, 1 for abnormal and 0 for normal images.
        maps: `(N, h, w)` heat maps at the detector's own resolution, or None.
        masks: uint8 `(N, S, S)` lesion masks, or None.
        has_mask: bool `(N,)`, True for abnormal images with a known mask. Defaults to images with a lesion pixel.
        roi: uint8 `(N, S, S)` regions of interest; pixels outside are ignored. Defaults to all pixels.
        holdout_scores: Scores of held-out normal images, or None.
        holdout_maps: Heat maps of held-out normal images, or None.
        protocol: Rule for the image threshold, one of PROTOCOLS.
        pixel_rule: Rule for the pixel threshold, one of PIXEL_RULES.
        seed: Random seed.
        bootstrap: Number of bootstrap samples, or 0 for no intervals.
        holdout_roi: Regions of interest of the held-out normal images, or None.
        patients: `(N,)` patients of the images, for intervals over patients instead of images, or None.
        holdout_patients: Patients of the held-out images, for a pixel threshold over patients, or None.
        outline: Scale that defines outlines with the pixel rule `held-out`. Defaults to the held-out pixel threshold.

    Returns:
        `auroc`, `ap`, `sensitivity`, `specificity`, `accuracy`, `pixel_auroc`, `dice`, `iou`, `pro` and `pro_all`, each
        with a 95 % bootstrap interval as `NAME_ci`; `threshold`, `pixel_threshold`, `outline_share`, `outlined` (mean
        outlined fraction of images with a mask), `five_groups`, `protocol`, `pixel_rule`, `roi`, `n_normal`,
        `n_abnormal`, `n_localised` and `n_patients`. Undefined values are None.

    Raises:
        CannotEvaluate: If a required input is missing or invalid.
    """
    if protocol not in PROTOCOLS or pixel_rule not in PIXEL_RULES:
        raise CannotEvaluate(f"the protocol must be one of {PROTOCOLS} and the pixel rule one of {PIXEL_RULES}")
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels).astype(int)
    if len(scores) != len(labels) or not len(scores) or not np.isfinite(scores).all():
        raise CannotEvaluate("an evaluation needs one finite score and one label per image, and at least one image")
    held_out = _holdout(protocol, pixel_rule, maps, holdout_scores, holdout_maps, holdout_roi, holdout_patients)
    if protocol == "paper" or held_out is None:  # `_holdout` refuses the other protocol without held-out scores
        sample = validation_draw(labels, seed)
        threshold = most_accurate(scores[sample], labels[sample])
    else:
        threshold = held_out.threshold(QUANTILE)
    row: dict[str, Any] = {"auroc": auroc(scores, labels), "ap": average_precision(scores, labels)}
    row |= rates(scores, labels, threshold)
    counts = boot.bootstrap_counts(labels, bootstrap, seed, patients) if bootstrap else None
    row |= _detection_intervals(scores, labels, threshold, counts, row)
    if maps is None or masks is None:
        row |= EMPTY
    else:
        usual = held_out.pixels if pixel_rule == "held-out" and held_out else None
        scale = outline if usual is not None and outline is not None else usual
        row |= localisation(Pixels(maps, masks, labels, roi), has_mask, scale, seed, counts)
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
    maps: Rows | None,
    scores: np.ndarray | None,
    held_maps: Rows | None,
    roi: Rows | None,
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
    correct = (scores > threshold) == labels
    sick = labels == 1
    values = [
        *boot.detection(scores, labels, counts),
        boot.means(correct[sick], counts[:, sick]),
        boot.means(correct[~sick], counts[:, ~sick]),
        boot.means(correct, counts),
    ]
    return {f"{name}_ci": boot.interval(v) for name, v in zip(names, values, strict=True)}

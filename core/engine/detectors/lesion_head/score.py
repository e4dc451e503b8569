"""The lesion head's score: several summaries of an image, and the choice among them on synthetic validation data.

The data are held-out normal images and lesions of held-out families; no test image is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

from core.engine.calibration.heatmap import masked_maps
from core.engine.config import Config

TOP = (0.005, 0.02, 0.05)  # shares of an image's cells
NOT_FROM_MAP = ("class", "centres")  # summaries that do not come from the map
_CLEARLY = 0.05  # difference in AUROC
_FEW = 5  # images of one label


def summaries(
    maps: np.ndarray, classes: np.ndarray, margin: np.ndarray, roi: np.ndarray | None, threshold: float
) -> dict[str, np.ndarray]:
    """Computes several summaries of N images, each (N,); larger values are more abnormal.

    Args:
        maps: (N, h, w), lesion logits.
        classes: (N, k+1), probabilities of A_0 to A_k.
        margin: (N,), distance from c_0 minus the distance from the nearest other centre.
        roi: uint8 (N, S, S), 1 inside the region of interest, or None.
        threshold: Logit above which a cell counts as lesion.
    """
    inside = masked_maps(maps, roi)
    cells = np.sort(inside.reshape(len(maps), inside.shape[1] * inside.shape[2]), 1)
    out = {f"top {share:.1%}": cells[:, -max(1, round(share * cells.shape[1])) :].mean(1) for share in TOP}
    above = inside > threshold
    out["area"] = np.log1p(above.sum((1, 2)).astype(np.float64))
    out["largest component"] = np.array([np.log1p(_largest(a)) for a in above])
    odds = np.clip(classes[:, 0], 1e-6, 1 - 1e-6)
    out["class"] = np.log((1 - odds) / odds)
    out["centres"] = margin
    return out


def _largest(above: np.ndarray) -> int:
    _, _, stats, _ = cv2.connectedComponentsWithStats(above.astype(np.uint8), connectivity=8)
    return int(stats[1:, cv2.CC_STAT_AREA].max(initial=0))


@dataclass(frozen=True)
class Validation:
    """Summaries (N,) of validation images, and labels (N,): 1 if a lesion was pasted, else 0."""

    values: dict[str, np.ndarray]
    labels: np.ndarray


def choose_rule(data: Validation, threshold: float, seed: int = 0) -> ScoreRule:
    """Chooses the rule by which images are scored: the summary of the map with the best AUROC on validation data.

    The class head's summary, that of the centres, or a logistic combination of all is chosen only if its AUROC is
    higher by more than `_CLEARLY`: readers can check a score from the map against it, and with some dozens of images
    the AUROC's error is about 0.03. The combination is evaluated by cross-validation. With fewer than `_FEW` images of
    either label the default rule is used.
    """
    if np.bincount(data.labels, minlength=2).min() < _FEW:
        return ScoreRule(threshold=threshold)
    from sklearn.metrics import roc_auc_score  # here, as below: scikit-learn takes seconds to load
    from sklearn.model_selection import StratifiedKFold

    auroc = {name: float(roc_auc_score(data.labels, v)) for name, v in data.values.items()}
    names = tuple(data.values)
    x = np.stack([data.values[n] for n in names], 1)
    combined = np.zeros(len(x))
    for training_rows, test_rows in StratifiedKFold(5, shuffle=True, random_state=seed).split(x, data.labels):
        weights, bias = _logistic(x[training_rows], data.labels[training_rows])
        combined[test_rows] = x[test_rows] @ weights + bias
    auroc["combined"] = float(roc_auc_score(data.labels, combined))
    from_map = max((n for n in names if n not in NOT_FROM_MAP), key=lambda name: auroc[name])
    best = max(auroc, key=lambda name: auroc[name])
    if best == from_map or auroc[best] <= auroc[from_map] + _CLEARLY:
        return ScoreRule(from_map, (from_map,), (1.0,), 0.0, threshold, auroc)
    if best != "combined":
        return ScoreRule(best, (best,), (1.0,), 0.0, threshold, auroc)
    weights, bias = _logistic(x, data.labels)
    return ScoreRule("combined", names, tuple(map(float, weights)), float(bias), threshold, auroc)


def _logistic(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns weights (D,) and bias for raw values x (N, D); the fit standardises them."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(x)
    model = LogisticRegression(C=0.1).fit(scaler.transform(x), y)
    weights = model.coef_[0] / scaler.scale_
    return weights, float(model.intercept_[0] - weights @ scaler.mean_)


@dataclass(frozen=True)
class ScoreRule(Config):
    """The rule by which images are scored: a weighted sum of summaries, chosen in the fit.

    name: of the rule. terms, weights, bias: score = sum of weights x summaries + bias. threshold: logit above which a
    cell counts as lesion. auroc: that of every candidate on validation data.
    """

    name: str = "top 2.0%"
    terms: tuple[str, ...] = ("top 2.0%",)
    weights: tuple[float, ...] = (1.0,)
    bias: float = 0.0
    threshold: float = 0.0
    auroc: dict[str, Any] = field(default_factory=dict)

    def __call__(self, summaries: dict[str, np.ndarray]) -> np.ndarray:
        """Computes scores float32 (N,) from summaries (N,)."""
        total = np.sum([w * summaries[t] for t, w in zip(self.terms, self.weights, strict=True)], axis=0)
        return np.asarray(total + self.bias, np.float32)

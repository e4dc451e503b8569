"""From a map to one score: several ways to sum up an image, and the choice among them on synthetic validation data.

The data are normal images the network never saw and lesions of families it never saw; no test image is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

from core.engine.calibration.heatmap import masked_maps
from core.engine.config import Config

TOP = (0.005, 0.02, 0.05)  # shares of an image's cells
BESIDE = ("class", "centres")  # summaries that do not come from the map
_CLEARLY = 0.05  # of AUROC
_FEW = 5  # images of a kind


def summaries(
    maps: np.ndarray, classes: np.ndarray, margin: np.ndarray, roi: np.ndarray | None, threshold: float
) -> dict[str, np.ndarray]:
    """Sums up N images in several ways, each (N,), larger is more abnormal.

    maps: lesion logits (N, h, w). classes: probabilities over A_0..A_k (N, k+1). margin: (N,), distance to c_0 less
    the distance to the nearest other centre. threshold: logit above which a cell counts as lesion.
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
    """Summaries of validation images and whether a lesion was put in: labels (N,) 0 or 1."""

    values: dict[str, np.ndarray]
    labels: np.ndarray


def choose_rule(data: Validation, threshold: float, seed: int = 0) -> ScoreRule:
    """Chooses the rule by which images are scored: the summary of the map with the best AUROC on validation data.

    One that the map does not show is taken if it is clearly better: the class head's, the centres', or the logistic
    combination of all. A reader can check a score against the map; and with some dozens of normals an AUROC is known to
    about 0.03. So what lies beside the map must win by `_CLEARLY`. The combination is judged on folds it was not fitted
    on. With fewer than `_FEW` images of either kind nothing can be chosen, and the default rule stands.
    """
    if np.bincount(data.labels, minlength=2).min() < _FEW:
        return ScoreRule(threshold=threshold)
    from sklearn.metrics import roc_auc_score  # here, as below: scikit-learn takes seconds to load
    from sklearn.model_selection import StratifiedKFold

    auroc = {name: float(roc_auc_score(data.labels, v)) for name, v in data.values.items()}
    names = tuple(data.values)
    x = np.stack([data.values[n] for n in names], 1)
    held = np.zeros(len(x))
    for fitted, others in StratifiedKFold(5, shuffle=True, random_state=seed).split(x, data.labels):
        weights, bias = _logistic(x[fitted], data.labels[fitted])
        held[others] = x[others] @ weights + bias
    auroc["combined"] = float(roc_auc_score(data.labels, held))
    shown = max((n for n in names if n not in BESIDE), key=lambda name: auroc[name])
    best = max(auroc, key=lambda name: auroc[name])
    if best == shown or auroc[best] <= auroc[shown] + _CLEARLY:
        return ScoreRule(shown, (shown,), (1.0,), 0.0, threshold, auroc)
    if best != "combined":
        return ScoreRule(best, (best,), (1.0,), 0.0, threshold, auroc)
    weights, bias = _logistic(x, data.labels)
    return ScoreRule("combined", names, tuple(map(float, weights)), float(bias), threshold, auroc)


def _logistic(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights (D,) and bias on the raw values; the fit is on standardised ones."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(x)
    model = LogisticRegression(C=0.1).fit(scaler.transform(x), y)
    weights = model.coef_[0] / scaler.scale_
    return weights, float(model.intercept_[0] - weights @ scaler.mean_)


# How the lesion head scores an image: a weighted sum of summaries of its map, chosen once and stored.


@dataclass(frozen=True)
class ScoreRule(Config):
    """A rule by which images are scored.

    name: the chosen rule. terms, weights, bias: score = sum of weights x summaries + bias. threshold: logit above which
    a cell counts as lesion. auroc: of every candidate on validation data.
    """

    name: str = "top 2.0%"
    terms: tuple[str, ...] = ("top 2.0%",)
    weights: tuple[float, ...] = (1.0,)
    bias: float = 0.0
    threshold: float = 0.0
    auroc: dict[str, Any] = field(default_factory=dict)

    def __call__(self, summaries: dict[str, np.ndarray]) -> np.ndarray:
        """Summaries, each (N,) -> scores (N,) float32."""
        total = np.sum([w * summaries[t] for t, w in zip(self.terms, self.weights, strict=True)], axis=0)
        return np.asarray(total + self.bias, np.float32)

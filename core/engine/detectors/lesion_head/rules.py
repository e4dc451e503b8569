"""How the lesion head scores an image: a weighted sum of summaries of its map, chosen once and stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from core.engine.config import Config


@dataclass(frozen=True)
class ScoreRule(Config):
    """name: the chosen rule. terms, weights, bias: score = sum of weights x summaries + bias.

    threshold: logit above which a cell counts as lesion. auroc: of every candidate on validation data.
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

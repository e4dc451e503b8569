"""Nearest neighbours among features. NumPy alone: the page's process answers without loading torch."""

from __future__ import annotations

import numpy as np


def nearest(
    features: np.ndarray, index: int, k: int = 10, allowed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the k nearest rows to row `index` by Euclidean distance, itself left out: (indices (k,), distances (k,)).

    Exact (every row is compared), in double precision; `allowed` bool (N,) limits who may answer.
    Ties are broken by the smaller index, so that the answer is always the same.
    """
    difference = features - features[index]
    squared = np.einsum("nd,nd->n", difference, difference, dtype=np.float64)
    squared[index] = np.inf
    if allowed is not None:
        squared[~allowed] = np.inf
    k = min(k, int(np.isfinite(squared).sum()))
    order = np.lexsort((np.arange(len(squared)), squared))[:k]
    return order, np.sqrt(squared[order])

"""Nearest neighbours among features, with NumPy only, so that the page's process does not load torch."""

from __future__ import annotations

import numpy as np


def nearest(
    features: np.ndarray, index: int, k: int = 10, allowed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the k (or fewer) rows nearest to row `index`, except itself: indices (k,), Euclidean distances (k,).

    The search is exact, in double precision; of equal distances the smaller index comes first. allowed: bool (N,), rows
    that may be returned; None for all.
    """
    difference = features - features[index]
    squared = np.einsum("nd,nd->n", difference, difference, dtype=np.float64)
    squared[index] = np.inf
    if allowed is not None:
        squared[~allowed] = np.inf
    k = min(k, int(np.isfinite(squared).sum()))
    order = np.lexsort((np.arange(len(squared)), squared))[:k]
    return order, np.sqrt(squared[order])

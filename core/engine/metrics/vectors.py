"""Nearest neighbours among features, with NumPy only, so that the web server does not load torch."""

from __future__ import annotations

import numpy as np


def nearest(
    features: np.ndarray, index: int, k: int = 10, allowed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices and the Euclidean distances of the `k` rows nearest to row `index`, except that row.

    The search is exact, in double precision. Of equal distances, the smaller index comes first. Fewer than `k` rows are
    returned if there are not enough. `features` is `(N, D)`; `allowed`, bool `(N,)` or None, limits the candidates.
    """
    difference = features - features[index]
    squared = np.einsum("nd,nd->n", difference, difference, dtype=np.float64)
    squared[index] = np.inf
    if allowed is not None:
        squared[~allowed] = np.inf
    k = min(k, int(np.isfinite(squared).sum()))
    order = np.lexsort((np.arange(len(squared)), squared))[:k]
    return order, np.sqrt(squared[order])

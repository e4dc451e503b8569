"""Finds nearest neighbours among features with NumPy only, so that the web server does not load torch."""

from __future__ import annotations

import numpy as np


def nearest(
    features: np.ndarray, index: int, k: int = 10, allowed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns indices and Euclidean distances of the `k` rows nearest to row `index`, excluding the row itself.

    All rows are compared, with squares summed in double precision; ties are broken by index. There may be fewer than
    `k` rows. `features` is `(N, D)`; `allowed`, bool `(N,)`, limits the candidates and defaults to all rows.
    """
    difference = features - features[index]
    squared = np.einsum("nd,nd->n", difference, difference, dtype=np.float64)
    squared[index] = np.inf
    if allowed is not None:
        squared[~allowed] = np.inf
    k = min(k, int(np.isfinite(squared).sum()))
    order = np.lexsort((np.arange(len(squared)), squared))[:k]
    return order, np.sqrt(squared[order])

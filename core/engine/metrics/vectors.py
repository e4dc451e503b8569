"""What is done with features once they are arrays: centring, neighbours. NumPy alone: a page answers at once."""

from __future__ import annotations

import numpy as np


def centred(projected: np.ndarray, centres: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """(f - c_n) / ||f - c_n||: float32 (N, D) of unit rows, from f (N, D), centres (k+1, D), classes n (N,).

    A real image, normal or abnormal, belongs to n = 0: nobody tells the encoder that it carries a lesion.
    """
    classes = np.asarray(classes)
    if len(classes) != len(projected):
        raise ValueError(f"{len(projected)} features have {len(classes)} classes")
    if classes.min() < 0 or classes.max() >= len(centres):
        raise ValueError(f"class {int(classes.max())} has no centre: the run has {len(centres)} of them")
    difference = projected.astype(np.float64) - centres.astype(np.float64)[classes]
    length = np.linalg.norm(difference, axis=1, keepdims=True)
    return (difference / np.maximum(length, 1e-12)).astype(np.float32)


def nearest(features: np.ndarray, index: int, k: int = 10, allowed: np.ndarray | None = None) -> tuple:
    """The k nearest rows to row `index` by Euclidean distance, itself left out: (indices (k,), distances (k,)).

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

"""Heat maps with 16 bits, using NumPy only, so that the page's process can read them without loading torch."""

from __future__ import annotations

import numpy as np

LEVELS = 65535


def quantise(heat: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Quantises a map `(h, w)` to uint16 codes; returns the codes, the minimum and the maximum.

    The error is at most (maximum - minimum) / 131070. Raises ValueError if the map is empty or not finite everywhere.
    """
    heat = np.asarray(heat, dtype=np.float64)
    if not heat.size or not np.isfinite(heat).all():
        raise ValueError("a heat map must have at least one value, and only finite values")
    lo, hi = float(heat.min()), float(heat.max())
    span = hi - lo
    codes = np.zeros(heat.shape) if span == 0 else np.rint((heat - lo) / span * LEVELS)
    return codes.astype(np.uint16), lo, hi


def dequantise(codes: np.ndarray, lo: float, hi: float) -> np.ndarray:
    """Restores a float32 map `(h, w)` from the codes, minimum `lo` and maximum `hi` that `quantise` returned."""
    return (lo + codes.astype(np.float64) * ((hi - lo) / LEVELS)).astype(np.float32)

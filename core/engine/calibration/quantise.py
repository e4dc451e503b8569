"""Conversion of heat maps to 16 bits, with NumPy only, so that the web server can read them without torch."""

from __future__ import annotations

import numpy as np

LEVELS = 65535


def quantise(heat: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Quantises a map `(h, w)` to uint16 codes; returns the codes and the map's minimum and maximum.

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

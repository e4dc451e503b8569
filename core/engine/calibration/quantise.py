"""Heat maps in 16 bits, with NumPy only, so that the page's process can read them without loading torch."""

from __future__ import annotations

import numpy as np

LEVELS = 65535


def quantise(heat: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Quantises a map (h, w): returns uint16 (h, w), lo and hi. The error is at most (hi - lo) / 131070.

    Raises ValueError if the map is empty or has a value that is not finite.
    """
    heat = np.asarray(heat, dtype=np.float64)
    if not heat.size or not np.isfinite(heat).all():
        raise ValueError("a heat map must hold at least one value, and finite ones only")
    lo, hi = float(heat.min()), float(heat.max())
    span = hi - lo
    codes = np.zeros(heat.shape) if span == 0 else np.rint((heat - lo) / span * LEVELS)
    return codes.astype(np.uint16), lo, hi


def dequantise(codes: np.ndarray, lo: float, hi: float) -> np.ndarray:
    """Restores a map from uint16 (h, w), lo and hi, the result of `quantise` -> float32 (h, w)."""
    return (lo + codes.astype(np.float64) * ((hi - lo) / LEVELS)).astype(np.float32)

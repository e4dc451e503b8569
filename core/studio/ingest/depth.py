"""Converts stored values of more than 8 bits to the 8 bits that are displayed."""

from __future__ import annotations

import numpy as np

from core.studio.ingest.unreadable import Unreadable

CONTAINERS = (8, 10, 12, 14, 16)  # bits that a scanner's values fill


def container(values: np.ndarray) -> int:
    """Returns the smallest of CONTAINERS whose bits hold all values, whole numbers from 0 to 65535."""
    return next(bits for bits in CONTAINERS if int(values.max()) < 1 << bits)


def finite(values: np.ndarray) -> np.ndarray:
    """Returns the finite values. Raises Unreadable if there are none."""
    good = np.isfinite(values) if values.dtype.kind == "f" else np.True_
    numbers = values if good.all() else values[good]
    if not numbers.size:
        raise Unreadable("it holds no number: each of its values is NaN or infinite")
    return numbers


def to_8bit(deep: np.ndarray, scale: tuple[float, float] | None = None) -> np.ndarray:
    """Converts stored values to 8 bits by a scale; values outside it are clipped.

    Without a scale, integers of 9 to 16 bits are scaled by the smallest of 8, 10, 12, 14, 16 bits that holds them (so a
    12-bit picture in a 16-bit file is not black), others by their range. Raises Unreadable if no value is finite.
    """
    if scale is None and deep.dtype.kind in "ui" and deep.min() >= 0 and deep.max() < 65536:
        return (deep.astype(np.uint32) >> (container(deep) - 8)).astype(np.uint8)
    if scale is None:
        numbers = finite(deep)
        scale = float(numbers.min()), float(numbers.max())
    low, high = scale
    values = np.nan_to_num(deep.astype(np.float64), nan=low, posinf=high, neginf=low)
    return (np.clip((values - low) / max(high - low, 1e-300), 0, 1) * 255).round().astype(np.uint8)

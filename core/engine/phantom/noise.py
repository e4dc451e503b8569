"""Smooth random fields, cheap: a small random grid enlarged, summed over octaves."""

from __future__ import annotations

import cv2
import numpy as np


def field(rng: np.random.Generator, shape: tuple[int, int], cells: tuple[int, int], wrap: bool = False) -> np.ndarray:
    """float32 (h, w), mean about 0, standard deviation about 1, with `cells` (down, across) bumps.

    wrap: the left and the right edge meet, as the two ends of the angle around a tube must.
    """
    down, across = max(2, cells[0]), max(2, cells[1])
    grid = rng.standard_normal((down, across), dtype=np.float32)
    if not wrap:
        return cv2.resize(grid, shape[::-1], interpolation=cv2.INTER_CUBIC) * 1.25
    pad = 2
    step = shape[1] / across
    grid = np.pad(grid, ((0, 0), (pad, pad)), mode="wrap")
    wide = cv2.resize(grid, (round(step * (across + 2 * pad)), shape[0]), interpolation=cv2.INTER_CUBIC)
    start = round(pad * step)
    return wide[:, start : start + shape[1]] * 1.25


def fractal(
    rng: np.random.Generator,
    shape: tuple[int, int],
    cells: tuple[int, int],
    octaves: int = 4,
    gain: float = 0.55,
    wrap: bool = False,
) -> np.ndarray:
    """float32 (h, w): `octaves` fields, each twice as fine and `gain` times as strong, standard deviation about 1."""
    total = np.zeros(shape, np.float32)
    power = 0.0
    for o in range(octaves):
        total += gain**o * field(rng, shape, (cells[0] << o, cells[1] << o), wrap)
        power += gain ** (2 * o)
    return total / np.float32(np.sqrt(power))

"""Exact quantiles of more values than memory holds, by counting: two passes, and a fixed number of counters.

A float32 has 32 bits that sort as integers do. The first pass counts the upper 16 of each value, which says in which
of 65,536 buckets a rank lies; the second counts the lower 16 within those buckets, which names the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

HALF = 1 << 16


def quantiles(parts: Callable[[], Iterable[np.ndarray]], wanted: Sequence[float]) -> list[float]:
    """What numpy.quantile of all values together gives, float64, for shares `wanted` of 0..1.

    parts: called twice, gives the same arrays of finite float32 each time. ValueError if there is no value.
    """
    upper = np.zeros(HALF, np.int64)
    for part in parts():
        upper += np.bincount(_keys(part) >> 16, minlength=HALF)
    count = int(upper.sum())
    if not count:
        raise ValueError("there are no values to take quantiles of")
    ends = [(math.floor((count - 1) * q), math.ceil((count - 1) * q)) for q in wanted]
    ranks = sorted({rank for pair in ends for rank in pair})
    below = np.cumsum(upper)
    bucket = {rank: int(np.searchsorted(below, rank, side="right")) for rank in ranks}
    lower = {b: np.zeros(HALF, np.int64) for b in set(bucket.values())}
    for part in parts():
        keys = _keys(part)
        high = keys >> 16
        for one, counts in lower.items():
            counts += np.bincount(keys[high == one] & (HALF - 1), minlength=HALF)

    def value(rank: int) -> float:
        one = bucket[rank]
        place = rank - (int(below[one - 1]) if one else 0)
        return _value(one << 16 | int(np.searchsorted(np.cumsum(lower[one]), place, side="right")))

    found = []
    for q, (first, last) in zip(wanted, ends, strict=True):
        a, b, t = value(first), value(last), (count - 1) * q - first
        found.append(a + (b - a) * t if t < 0.5 else b - (b - a) * (1 - t))  # as NumPy joins two neighbours
    return found


def _keys(values: np.ndarray) -> np.ndarray:
    """float32 of any shape -> uint32 (n,) in the same order; -0 counts as 0."""
    bits = (np.asarray(values, np.float32).ravel() + np.float32(0)).view(np.uint32)
    return bits ^ np.where(bits >> 31, np.uint32(0xFFFFFFFF), np.uint32(0x80000000))


def _value(key: int) -> float:
    bits = key ^ (0x80000000 if key >> 31 else 0xFFFFFFFF)
    return float(np.array(bits, np.uint32).view(np.float32))

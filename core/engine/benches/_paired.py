"""Timing several things side by side: in turns, so that a busy moment of the machine falls on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable


def medians(whats: list[Callable[[], object]], rounds: int) -> list[float]:
    """Median seconds of each over `rounds` turns; the first turn of each only warms up and is left out."""
    seconds: list[list[float]] = [[] for _ in whats]
    for turn in range(rounds + 1):
        for what, taken in zip(whats, seconds, strict=True):
            start = time.perf_counter()
            what()
            if turn:
                taken.append(time.perf_counter() - start)
    return [sorted(taken)[rounds // 2] for taken in seconds]

"""Timing several things side by side: in turns, so that a busy moment of the machine falls on all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch


def medians(
    whats: list[Callable[[], object]], rounds: int, *, warm: int = 1, device: torch.device | None = None
) -> list[float]:
    """Median seconds of each over `rounds` turns, after `warm` turns that are left out.

    device: where the work is done; a CUDA device is waited for before the clock stops.
    """
    seconds: list[list[float]] = [[] for _ in whats]
    for turn in range(rounds + warm):
        for what, taken in zip(whats, seconds, strict=True):
            start = time.perf_counter()
            what()
            if device is not None and device.type == "cuda":
                torch.cuda.synchronize(device)
            if turn >= warm:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in seconds]

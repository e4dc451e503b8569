"""The memory of the bench's server: by time, and by the decisions that it has taken."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

SAMPLES = 120  # points of a curve
PATIENCE = 60.0  # seconds in which a server must take a decision
Curve = list[list[float]]


def by_time(pid: int, seconds: float) -> tuple[Curve, list[float]]:
    """[second, MB] of a process, and the machine's load average: its mean and its most."""
    curve, loads = [], []
    began = time.monotonic()
    while (now := time.monotonic() - began) <= seconds:
        memory = memory_mb(pid)
        if memory is not None:
            curve.append([round(now, 1), memory])
        if hasattr(os, "getloadavg"):
            loads.append(os.getloadavg()[0])
        time.sleep(min(max(seconds / SAMPLES, 0.1), max(seconds - now, 0.01)))
    return curve, [round(statistics.mean(loads), 1), round(max(loads), 1)] if loads else []


def by_decisions(pid: int, count: int, done: Callable[[], int]) -> Curve:
    """[decisions, MB] of a process until it has taken `count`, or takes none for PATIENCE. done: how many it has."""
    curve: Curve = []
    moved, last = time.monotonic(), 0
    while (now := done()) < count and time.monotonic() - moved < PATIENCE:
        if now > last:
            moved, last = time.monotonic(), now
        memory = memory_mb(pid)
        if memory is not None and (not curve or now - curve[-1][0] >= count / SAMPLES):
            curve.append([now, memory])
        time.sleep(0.05)
    return curve


def slope(curve: Curve, per: float) -> float | None:
    """MB for each `per` by least squares over the second half, when what is loaded once has been loaded."""
    half = np.array([point for point in curve if point[0] >= curve[-1][0] / 2])
    return None if len(half) < 3 else round(float(np.polyfit(half[:, 0], half[:, 1], 1)[0]) * per, 2)


def memory_mb(pid: int, what: str = "VmRSS") -> float | None:
    """What a process holds in memory ("RssAnon": without mapped files); None where the system does not say."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return round(int(next(line for line in lines if line.startswith(what)).split()[1]) / 1024, 1)
    return None

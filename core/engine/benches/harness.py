"""What all benchmarks share: one list of them by name, the aim of a figure, and timing in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

Run = TypeVar("Run", bound=Callable[..., dict[str, Any]])


@dataclass(frozen=True)
class Aim:
    """The aim of a benchmark's figure: at least `value`, or at most. key: of the figure in the benchmark's result."""

    value: float
    at_least: bool = False
    key: str = "ratio"

    def met(self, figure: float) -> bool:
        return figure >= self.value if self.at_least else figure <= self.value


@dataclass(frozen=True)
class Bench:
    """A benchmark: `run(quick=False, ...)` returns its figures; its docstring's first line is its title."""

    run: Callable[..., dict[str, Any]]
    aim: Aim | None


BENCHES: dict[str, Bench] = {}  # by name, filled as their modules are imported


def bench(name: str, aim: Aim | None = None) -> Callable[[Run], Run]:
    """Lists the decorated function as the benchmark `name`. ValueError if there is one of that name already."""

    def listed(run: Run) -> Run:
        if name in BENCHES:
            raise ValueError(f"there are two benchmarks called {name!r}")
        BENCHES[name] = Bench(run, aim)
        return run

    return listed


def medians(
    whats: list[Callable[[], object]], rounds: int, *, warm: int = 1, device: torch.device | None = None
) -> list[float]:
    """Measures the median seconds of each function over `rounds` turns, after `warm` turns that are left out.

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

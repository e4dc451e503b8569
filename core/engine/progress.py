"""Types for long-running work (training, fitting, scoring), which reports progress and can be stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Report = Callable[[dict[str, Any]], None]  # called with {"step": i, "steps": n, **values}
Stop = Callable[[], bool]  # returns True if the work should stop


def part_of(report: Report | None, done: int, steps: int) -> Report | None:
    """Wraps `report` for a stage that starts after `done` of `steps` steps. Returns None if `report` is None."""
    if report is None:
        return None
    return lambda values: report({**values, "step": done + values["step"], "steps": steps})


class Stopped(Exception):
    """Raised when long-running work stops on request. A training run with a folder has saved a checkpoint by then."""

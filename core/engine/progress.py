"""Types with which long-running work (training, fitting, scoring) reports progress and is asked to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Report = Callable[[dict[str, Any]], None]  # called with {"step": i, "steps": n, **values}
Stop = Callable[[], bool]  # returns True if the work should stop


def part_of(report: Report | None, done: int, steps: int) -> Report | None:
    """Returns a `Report` for a stage that starts at step `done` of `steps`, or None if `report` is None."""
    if report is None:
        return None
    return lambda values: report({**values, "step": done + values["step"], "steps": steps})


class Stopped(Exception):
    """Raised when long-running work stops on request; a training run with a folder has then saved a checkpoint."""

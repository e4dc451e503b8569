"""How long-running work (trainings, fits, scoring) reports its progress and is asked to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Report = Callable[[dict[str, Any]], None]  # called with {"step": i, "steps": n, **values}
Stop = Callable[[], bool]


def part_of(report: Report | None, done: int, steps: int) -> Report | None:
    """Wraps `report` for a stage that starts after step `done` of `steps` in total. None if `report` is None."""
    if report is None:
        return None
    return lambda values: report({**values, "step": done + values["step"], "steps": steps})


class Stopped(Exception):
    """Raised by a fit or a training that was asked to stop; its resumable state is on disk."""

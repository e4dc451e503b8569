"""How long work reports and is stopped: by trainings, fits and scoring alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Report = Callable[[dict[str, Any]], None]  # called with {"step": i, "steps": n, **values}
Stop = Callable[[], bool]


def part_of(report: Report | None, done: int, steps: int) -> Report | None:
    """Report of one part, whose steps follow `done` others, of work that has `steps` in all."""
    if report is None:
        return None
    return lambda values: report({**values, "step": done + values["step"], "steps": steps})


class Stopped(Exception):
    """Raised by a fit or a training that was asked to stop; what can be resumed is on disk."""

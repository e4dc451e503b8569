"""How long work reports and is stopped: by trainings, fits and scoring alike."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[dict], None]  # called with {"step": i, "steps": n, **values}
Stop = Callable[[], bool]


class Stopped(Exception):
    """Raised by a fit or a training that was asked to stop; what can be resumed is on disk."""

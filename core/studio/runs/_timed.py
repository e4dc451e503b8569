"""The status of a run while one of its steps is at work, and the time that it takes."""

from __future__ import annotations

import time

from core.engine.progress import Stopped
from core.studio.db.store import Store, now
from core.studio.jobs import orphans
from core.studio.runs import records as runs


class Timed:
    """Marks a run running, then done, stopped or failed, and adds up the seconds over all its starts."""

    def __init__(self, store: Store, run_id: str, device: str):
        self.store, self.run_id, self.device = store, run_id, device
        self.status = "done"

    def __enter__(self) -> Timed:
        self.start = time.monotonic()
        self.before = runs.get_run(self.store, self.run_id)["seconds"] or 0.0
        runs.update_run(self.store, self.run_id, status="running", device=self.device)
        orphans.sign(runs.run_folder(self.store, self.run_id))
        return self

    def __exit__(self, kind, error, trace) -> None:
        if kind is not None:
            self.status = "stopped" if issubclass(kind, (Stopped, KeyboardInterrupt)) else "failed"
        seconds = self.before + time.monotonic() - self.start
        runs.update_run(self.store, self.run_id, status=self.status, seconds=seconds, finished=now())
        orphans.leave(runs.run_folder(self.store, self.run_id))

"""A step's reports, written down: metrics by step, the job's progress, one line for people."""

from __future__ import annotations

import math
import time

from core.studio.db import journal
from core.studio.db.store import Store
from core.studio.jobs import execution
from core.studio.jobs.records import TRAINS

FLUSH = 1.0  # seconds between two writes of metrics


class Reporter:
    """Turns a step's reports into metrics by step, the job's progress and one line for people."""

    def __init__(self, store: Store, job: dict):
        self.store, self.job = store, job
        self.rows: list[tuple[int, str, float]] = []
        self.fraction, self.message, self.written = 0.0, f"{job['step']} starts", 0.0
        self.shown: str | None = None
        self.thinned = 0  # the step at which the stored metrics were thinned last

    def __call__(self, values: dict) -> None:
        step, steps = int(values.get("step", 0)), max(int(values.get("steps", 0) or 0), 1)
        self.fraction = min(step / steps, 1.0)
        self.rows += [(step, name, value) for name, value in flatten(values) if name not in ("step", "steps")]
        message = values.get("message")
        if message and message != self.shown and self.job["run"]:
            journal.log(self.store, self.job["run"], message)
            self.shown = message
        self.message = message or f"{self.job['step']} {step} of {steps}"
        if time.monotonic() - self.written >= FLUSH:
            self.flush()

    def flush(self) -> None:
        if self.rows and self.job["run"] and self.job["step"] in TRAINS:
            journal.write_metrics(self.store, self.job["run"], self.rows)
            if (last := self.rows[-1][0]) - self.thinned >= journal.RECENT:
                journal.thin_metrics(self.store, self.job["run"], last)
                self.thinned = last
        self.rows = []
        share = (self.job["position"] + self.fraction) / len(self.job["chain"])
        execution.progress(self.store, self.job["id"], share, self.message)
        self.written = time.monotonic()


def flatten(values: dict) -> list[tuple[str, float]]:
    """Numbers of a report by name; a list gives name_0, name_1, ..., a matrix name_0_0, ...; the rest is left out."""
    pairs = []
    for name, value in values.items():
        several = value if isinstance(value, (list, tuple)) and len(value) <= 64 else None
        if several:
            pairs += flatten({f"{name}_{i}": v for i, v in enumerate(several)})
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            pairs.append((name, float(value) if math.isfinite(value) else math.nan))
    return pairs

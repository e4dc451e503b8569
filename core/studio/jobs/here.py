"""Executing a job in the calling process, for commands that torchrun starts in several processes."""

from __future__ import annotations

import json
import signal

from core.studio.db.store import Store
from core.studio.jobs import execution, worker
from core.studio.jobs import queue as jobs
from core.studio.jobs.records import get_job

GONE_ON_WITH = ("interrupted", "failed", "paused", "cancelled")  # statuses of jobs that ended early


def unfinished(store: Store, run: str) -> int | None:
    """Returns the last job on a run if it ended early, else None."""
    jobs.reap(store)
    for row in store.query("SELECT id, status, chain FROM jobs ORDER BY id DESC"):
        if any(step["run"] == run for step in json.loads(row["chain"])):
            return row["id"] if row["status"] in GONE_ON_WITH else None
    return None


def execute(store: Store, job: int) -> dict:
    """Executes a queued job in this process; returns its row. SIGTERM stops it at a checkpoint.

    If another job of its queue is running, the job is cancelled and ValueError raised.
    """
    claimed = execution.claim(store, job=job)
    if claimed is None:
        jobs.cancel(store, job)
        raise ValueError("another training is running in this home: wait for it, or pause it")
    before = signal.signal(signal.SIGTERM, worker.stop)
    try:
        worker.execute(store, claimed)
    finally:
        signal.signal(signal.SIGTERM, before)
    return get_job(store, job)

"""The worker's operations on a job: claim it, report progress, go to the next step, end it."""

from __future__ import annotations

import os

from core.studio.db.store import Store, now, parsed
from core.studio.jobs.processes import start_of
from core.studio.jobs.queues import GIVES_WAY, LONG
from core.studio.jobs.records import JSON, at_position, finish, get_job


def claim(store: Store, queue: str | None = None, job: int | None = None) -> dict | None:
    """Claims the oldest queued job for this process and returns it, or None. Jobs of the demo come last.

    queue: None for any idle queue. job: None for any job. This is a single statement, so that two workers cannot claim
    the same job.
    """
    rows = store.query(
        "UPDATE jobs SET status = 'running', wants = 'run', pid = :pid, pid_start = :start, heartbeat = :now, "
        "started = coalesce(started, :now), finished = NULL, error = NULL "
        "WHERE id = (SELECT id FROM jobs q WHERE q.status = 'queued' AND q.queue = coalesce(:queue, q.queue) "
        "AND q.id = coalesce(:job, q.id) "
        "AND NOT EXISTS (SELECT 1 FROM jobs r WHERE r.status = 'running' AND r.queue = q.queue) "
        f"ORDER BY {GIVES_WAY.format(job='q')}, id LIMIT 1) RETURNING *",
        {"pid": os.getpid(), "start": start_of(os.getpid()), "now": now(), "queue": queue, "job": job},
    )
    return parsed(rows[0], *JSON) if rows else None


def wants(store: Store, job: int) -> str:
    """Returns the last request on a job: 'run', 'pause' or 'cancel'."""
    row = store.one("SELECT wants FROM jobs WHERE id = ?", [job])
    return row["wants"] if row else "cancel"


def heartbeat(store: Store, job: int) -> None:
    """Records that the job's worker is alive now."""
    store.execute("UPDATE jobs SET heartbeat = ? WHERE id = ? AND status = 'running'", [now(), job])


def progress(store: Store, job: int, fraction: float, message: str) -> None:
    """Records the progress of a job, from 0 to 1 of the whole chain, and what it is doing."""
    store.execute(
        "UPDATE jobs SET progress = ?, message = ?, heartbeat = ? WHERE id = ?", [fraction, message, now(), job]
    )


def advance(store: Store, job: int) -> dict | None:
    """Moves a job to its chain's next step; returns it, or None (and the job is done) after the last."""
    with store.write() as db:
        row = get_job(store, job)
        position = row["position"] + 1
        if position == len(row["chain"]):
            finish(store, row, "done", "Done", None)
            db.execute("UPDATE jobs SET progress = 1 WHERE id = ?", [job])
            return None
        db.table("jobs").update(job, {**at_position(row["chain"], position), "progress": position / len(row["chain"])})
        return get_job(store, job)


def end(store: Store, job: int, status: str, message: str = "", error: str | None = None) -> None:
    """Ends the work on a job that is not done: paused, cancelled, interrupted or failed."""
    with store.write():
        finish(store, get_job(store, job), status, message, error)


def defer(store: Store, job: int, message: str) -> bool:
    """Returns a running job to the long queue; returns False if it is to be paused or cancelled."""
    change = "UPDATE jobs SET status = 'queued', queue = ?, pid = NULL, message = ? WHERE id = ? AND wants = 'run'"
    return store.execute(change, [LONG, message, job]).rowcount == 1

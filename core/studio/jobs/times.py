"""How long the steps of jobs took on this machine, and since when the one at work has been running."""

from __future__ import annotations

import time

from core.studio.db.store import Store

LATEST = 12  # finished steps that say how fast the machine is


def share_of(job: dict) -> float:
    """Computes the part of its present step that a job has done, 0..1. job: as `get_job` gives it."""
    return min(max(job["progress"] * len(job["chain"]) - job["position"], 0.0), 1.0)


def begin(store: Store, job: dict) -> int:
    """Notes that a job's worker begins its present step; returns the note's id."""
    with store.write() as db:
        row = {"job": job["id"], "position": job["position"], "began": time.time(), "share": share_of(job)}
        added = db.table("step_times").insert(row).last_rowid
    assert added is not None
    return added


def done(store: Store, noted: int) -> None:
    """Notes that the step is done."""
    store.execute("UPDATE step_times SET seconds = ? - began WHERE id = ?", [time.time(), noted])


def finished(store: Store, job: int | None = None) -> list[dict]:
    """Lists steps that ran from their beginning to their end, newest first: {"job", "position", "seconds"}.

    Those of one job, or the latest of any.
    """
    where, what = ("AND job = ?", [job]) if job is not None else ("", [])
    return store.query(
        f"SELECT job, position, seconds FROM step_times WHERE seconds IS NOT NULL AND share < 0.01 {where} "
        "ORDER BY id DESC LIMIT ?",
        [*what, LATEST],
    )


def present(store: Store, job: dict) -> tuple[float, float] | None:
    """Returns (seconds since it began, share of it done since then) of the step at which a running job is, or None."""
    row = store.one(
        "SELECT began, share FROM step_times WHERE job = ? AND position = ? AND seconds IS NULL ORDER BY id DESC",
        [job["id"], job["position"]],
    )
    return None if row is None else (max(time.time() - row["began"], 0.0), max(share_of(job) - row["share"], 0.0))

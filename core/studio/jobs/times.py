"""Measures how long the steps of jobs take on this machine."""

from __future__ import annotations

import time

from core.studio.db.store import Store

LATEST = 12  # number of finished steps used to estimate the machine's speed


def share_of(job: dict) -> float:
    """Returns the progress of a job's current step, from 0 to 1, given the job's row from `get_job`."""
    return min(max(job["progress"] * len(job["chain"]) - job["position"], 0.0), 1.0)


def begin(store: Store, job: dict) -> int:
    """Records the start of a job's current step; returns the id of the record."""
    with store.write() as db:
        row = {"job": job["id"], "position": job["position"], "began": time.time(), "share": share_of(job)}
        added = db.table("step_times").insert(row).last_rowid
    assert added is not None
    return added


def done(store: Store, noted: int) -> None:
    """Records the end of a step. `noted` is the id that `begin` returned."""
    store.execute("UPDATE step_times SET seconds = ? - began WHERE id = ?", [time.time(), noted])


def finished(store: Store, job: int | None = None) -> list[dict]:
    """Returns the latest steps that ran without interruption, of one or all jobs: [{"job", "position", "seconds"}]."""
    where, values = ("AND job = ?", [job]) if job is not None else ("", [])
    return store.query(
        f"SELECT job, position, seconds FROM step_times WHERE seconds IS NOT NULL AND share < 0.01 {where} "
        "ORDER BY id DESC LIMIT ?",
        [*values, LATEST],
    )


def present(store: Store, job: dict) -> tuple[float, float] | None:
    """Returns the seconds since a job's current step began or resumed, and its progress since, or None if unknown."""
    row = store.one(
        "SELECT began, share FROM step_times WHERE job = ? AND position = ? AND seconds IS NULL ORDER BY id DESC",
        [job["id"], job["position"]],
    )
    return None if row is None else (max(time.time() - row["began"], 0.0), max(share_of(job) - row["share"], 0.0))

"""Jobs: chains of steps (pretrain -> fit -> score -> evaluate) that worker processes execute, one per queue.

The page writes requests to the column `wants` and reads the progress; jobs continue when the page is closed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from core.studio.db.store import NotFound, Store, now, parsed
from core.studio.jobs.processes import detached
from core.studio.jobs.queues import QUEUES, queue_of
from core.studio.jobs.records import JSON, NOT_ENDED, TRAINS, at_position, finish, get_job, reap
from core.studio.jobs.steps import STEPS

__all__ = [
    "cancel", "ensure_worker", "get_job", "list_jobs", "once", "pause", "reap", "resume", "runs_of", "submit",
]  # fmt: skip


def submit(store: Store, steps: list[dict], start: bool = True) -> int:
    """Queues a chain of steps [{"step", "run", "args"}]; returns the job's id. start: whether a worker is started.

    Raises ValueError for an unknown step or run, or if a run belongs to a job that has not ended.
    """
    if not steps:
        raise ValueError("a job needs at least one step")
    chain = [{"step": s["step"], "run": s.get("run") or "", "args": s.get("args") or {}} for s in steps]
    for step in chain:
        STEPS[step["step"]]  # raises ValueError for an unknown step
    with store.write() as db:
        for run in {step["run"] for step in chain if step["run"]}:
            if store.one("SELECT 1 FROM runs WHERE id = ?", [run]) is None:
                raise NotFound(f"there is no run {run!r}")
        for step in chain:
            if step["step"] in TRAINS:
                _refuse_twice(store, step["run"])
        queue, message = queue_of(store, chain)
        row = {"chain": json.dumps(chain), "created": now(), "queue": queue, "message": message}
        job = db.table("jobs").insert({**row, **at_position(chain, 0)}).last_rowid
        assert job is not None
        for step in chain:
            if step["step"] in TRAINS:
                db.execute("UPDATE runs SET status = 'queued' WHERE id = ?", [step["run"]])
        if start:
            store.after(lambda: ensure_worker(store))
    return job


def once(store: Store, key: Sequence[Any], chain: Callable[[], list[dict]], start: bool = True) -> dict:
    """Returns the queued or running job with `key`; if there is none, queues a new one in the same transaction.

    key: JSON values that identify the request, so that equal requests share a job. chain: creates the runs and returns
    the steps.
    """
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    reap(store)
    with store.write() as db:
        same = store.one("SELECT id FROM jobs WHERE key = ? AND status IN ('queued', 'running')", [digest])
        if same is not None:
            return get_job(store, same["id"])
        job = submit(store, chain(), start=start)
        db.execute("UPDATE jobs SET key = ? WHERE id = ?", [digest, job])
        return get_job(store, job)


def runs_of(job: dict, *steps: str) -> list[str]:
    """Lists the runs of a job's steps with these names, in order."""
    return list(dict.fromkeys(step["run"] for step in job["chain"] if step["step"] in steps))


def _refuse_twice(store: Store, run: str) -> None:
    rows = store.query("SELECT id, chain FROM jobs WHERE status IN (?, ?, ?, ?)", NOT_ENDED)
    for row in rows:
        if any(s["run"] == run and s["step"] in TRAINS for s in json.loads(row["chain"])):
            raise ValueError(f"run {run} is already in job {row['id']}: resume or cancel that one")


def list_jobs(store: Store, *statuses: str, limit: int = 200) -> list[dict]:
    """Lists jobs that have not ended, then those that have, newest first, after `reap`."""
    reap(store)
    where = f"WHERE status IN ({', '.join('?' * len(statuses))})" if statuses else ""
    ended = "status IN ('done', 'failed', 'cancelled')"
    rows = store.query(f"SELECT * FROM jobs {where} ORDER BY {ended}, id DESC LIMIT ?", [*statuses, limit])
    return [parsed(row, *JSON) for row in rows]


def pause(store: Store, job: int) -> str:
    """Pauses a job so that `resume` can continue it; returns its status ('running' until the worker stops)."""
    return _ask(store, job, "pause", "paused", ("queued", "interrupted"))


def cancel(store: Store, job: int) -> str:
    """Cancels a job; everything its runs have written is kept."""
    return _ask(store, job, "cancel", "cancelled", ("queued", "paused", "interrupted"))


def _ask(store: Store, job: int, wants: str, status: str, idle: tuple[str, ...]) -> str:
    reap(store)
    with store.write() as db:
        row = get_job(store, job)
        if row["status"] == "running":
            db.execute("UPDATE jobs SET wants = ? WHERE id = ?", [wants, job])
            return "running"
        if row["status"] == status:
            return status
        if row["status"] not in idle:
            raise ValueError(f"job {job} is {row['status']}: it cannot be {status}")
        finish(store, row, status, row["message"], None)
        return status


def resume(store: Store, job: int, start: bool = True) -> str:
    """Queues a paused, interrupted, failed or cancelled job again; it continues from its last checkpoint."""
    reap(store)
    with store.write() as db:
        row = get_job(store, job)
        if row["status"] in ("queued", "running"):
            if row["wants"] == "pause":  # asked to pause but not stopped yet: it simply continues
                db.execute("UPDATE jobs SET wants = 'run' WHERE id = ?", [job])
            return row["status"]
        if row["status"] == "done":
            raise ValueError(f"job {job} is done: there is nothing to resume")
        queue, message = queue_of(store, row["chain"][row["position"] :])
        values = {"status": "queued", "wants": "run", "pid": None, "queue": queue}
        db.table("jobs").update(job, values | ({"message": message} if message else {}))
        for step in row["chain"][row["position"] :]:
            if step["step"] in TRAINS:
                db.execute("UPDATE runs SET status = 'queued' WHERE id = ?", [step["run"]])
    if start:
        ensure_worker(store)
    return "queued"


def ensure_worker(store: Store) -> list[int]:
    """Starts a worker process for each queue with queued jobs; returns their process ids.

    Superfluous workers end automatically.
    """
    reap(store)
    waiting = {row["queue"] for row in store.query("SELECT DISTINCT queue FROM jobs WHERE status = 'queued'")}
    line = [sys.executable, "-m", "core.studio.jobs.worker", "--home", str(store.home.path), "--queue"]
    root, out = Path(__file__).resolve().parents[3], store.home.path / "worker.log"
    return [detached([*line, queue], root, out) for queue in QUEUES if queue in waiting]

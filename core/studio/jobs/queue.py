"""Jobs: chains of steps (pretrain -> fit -> score -> evaluate) that worker processes execute, one for each lane.

The page only writes what it wants (`wants`) and reads how it goes; nothing here depends on the page being open.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from core.studio.db.journal import log
from core.studio.db.store import NotFound, Store, now, parsed
from core.studio.jobs.processes import detached, is_alive, start_of
from core.studio.jobs.queues import LANES, LONG, lane_of
from core.studio.jobs.steps import STEPS, Work, step

__all__ = [
    "STEPS", "Work", "advance", "cancel", "claim", "defer", "end", "ensure_worker", "get_job", "heartbeat", "list_jobs",
    "pause", "progress", "reap", "resume", "step", "submit", "wants",
]  # fmt: skip

_JSON = ("chain", "args")
_RUN_STATUS = {
    "queued": "queued", "paused": "stopped", "cancelled": "stopped", "interrupted": "interrupted", "failed": "failed",
}  # fmt: skip


def submit(store: Store, steps: list[dict], start: bool = True) -> int:
    """Queue one chain; returns its job id. steps: [{"verb", "run", "args"}]; `start` wakes a worker.

    ValueError for an unknown verb or run, or a run that already is in a job that has not ended.
    """
    if not steps:
        raise ValueError("a job needs at least one step")
    chain = [{"verb": s["verb"], "run": s.get("run") or "", "args": s.get("args") or {}} for s in steps]
    for one in chain:
        if one["verb"] not in STEPS:
            STEPS[one["verb"]]  # raises, naming the verbs there are
    with store.write() as db:
        for run in {one["run"] for one in chain if one["run"]}:
            if store.one("SELECT 1 FROM runs WHERE id = ?", [run]) is None:
                raise NotFound(f"there is no run {run!r}")
        for one in chain:
            if one["verb"] in ("pretrain", "fit"):
                _refuse_twice(store, one["run"])
        lane, message = lane_of(store, chain)
        row = {"chain": json.dumps(chain), "created": now(), "lane": lane, "message": message, **_at(chain, 0)}
        job = db["jobs"].insert(row).last_pk
        for one in chain:
            if one["verb"] in ("pretrain", "fit"):
                db.execute("UPDATE runs SET status = 'queued' WHERE id = ?", [one["run"]])
    if start:
        ensure_worker(store)
    return job


def _refuse_twice(store: Store, run: str) -> None:
    rows = store.query("SELECT id, chain FROM jobs WHERE status IN ('queued', 'running', 'paused', 'interrupted')")
    for row in rows:
        if any(s["run"] == run and s["verb"] in ("pretrain", "fit") for s in json.loads(row["chain"])):
            raise ValueError(f"run {run} is already in job {row['id']}: resume or cancel that one")


def _at(chain: list[dict], position: int) -> dict:
    one = chain[position]
    return {"position": position, "verb": one["verb"], "run": one["run"] or None, "args": json.dumps(one["args"])}


def claim(store: Store, lane: str | None = None) -> dict | None:
    """Take the oldest queued job for this process, or None; lane None: of any that is free.

    One statement: two workers cannot both have one.
    """
    rows = store.query(
        "UPDATE jobs SET status = 'running', wants = 'run', pid = :pid, pid_start = :start, heartbeat = :now, "
        "started = coalesce(started, :now), finished = NULL, error = NULL "
        "WHERE id = (SELECT id FROM jobs q WHERE q.status = 'queued' AND q.lane = coalesce(:lane, q.lane) "
        "AND NOT EXISTS (SELECT 1 FROM jobs r WHERE r.status = 'running' AND r.lane = q.lane) "
        "ORDER BY id LIMIT 1) RETURNING *",
        {"pid": os.getpid(), "start": start_of(os.getpid()), "now": now(), "lane": lane},
    )
    return parsed(rows[0], *_JSON) if rows else None


def get_job(store: Store, job: int) -> dict:
    """The job's row, chain and args as values."""
    row = store.one("SELECT * FROM jobs WHERE id = ?", [job])
    if row is None:
        raise NotFound(f"there is no job {job}; `jobs` lists them")
    return parsed(row, *_JSON)


def list_jobs(store: Store, *statuses: str, limit: int = 200) -> list[dict]:
    """Jobs that have not ended, then those that have, each newest first; dead workers are noticed on the way."""
    reap(store)
    where = f"WHERE status IN ({', '.join('?' * len(statuses))})" if statuses else ""
    ended = "status IN ('done', 'failed', 'cancelled')"
    rows = store.query(f"SELECT * FROM jobs {where} ORDER BY {ended}, id DESC LIMIT ?", [*statuses, limit])
    return [parsed(row, *_JSON) for row in rows]


def pause(store: Store, job: int) -> str:
    """Stop a job so that `resume` can go on from there; returns its status ('running' until the worker stops)."""
    return _ask(store, job, "pause", "paused", ("queued", "interrupted"))


def cancel(store: Store, job: int) -> str:
    """End a job for good; what its runs have already written stays."""
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
        _finish(store, row, status, row["message"], None)
        return status


def resume(store: Store, job: int, start: bool = True) -> str:
    """Queue a paused, interrupted, failed or cancelled job again; it goes on from its last checkpoint."""
    reap(store)
    with store.write() as db:
        row = get_job(store, job)
        if row["status"] in ("queued", "running"):
            if row["wants"] == "pause":  # asked to pause, not yet stopped: simply let it go on
                db.execute("UPDATE jobs SET wants = 'run' WHERE id = ?", [job])
            return row["status"]
        if row["status"] == "done":
            raise ValueError(f"job {job} is done: there is nothing to resume")
        lane, message = lane_of(store, row["chain"][row["position"] :])
        values = {"status": "queued", "wants": "run", "pid": None, "lane": lane}
        db["jobs"].update(job, values | ({"message": message} if message else {}))
        for one in row["chain"][row["position"] :]:
            if one["verb"] in ("pretrain", "fit"):
                db.execute("UPDATE runs SET status = 'queued' WHERE id = ?", [one["run"]])
    if start:
        ensure_worker(store)
    return "queued"


def reap(store: Store) -> list[int]:
    """Jobs whose worker is gone become 'interrupted' (with Resume); returns their ids."""
    gone = []
    for row in store.query("SELECT * FROM jobs WHERE status = 'running'"):
        if not is_alive(row["pid"], row["pid_start"]):
            with store.write():
                again = store.one("SELECT * FROM jobs WHERE id = ?", [row["id"]])
                if again["status"] != "running" or again["pid"] != row["pid"]:
                    continue
                status = {"pause": "paused", "cancel": "cancelled"}.get(again["wants"], "interrupted")
                reason = "the worker process ended without a word" if status == "interrupted" else None
                _finish(store, parsed(again, *_JSON), status, "Interrupted; Resume goes on", reason)
                gone.append(row["id"])
    return gone


# What the worker tells.


def wants(store: Store, job: int) -> str:
    """'run' | 'pause' | 'cancel', as last asked for."""
    row = store.one("SELECT wants FROM jobs WHERE id = ?", [job])
    return row["wants"] if row else "cancel"


def heartbeat(store: Store, job: int) -> None:
    """Say that the worker lives."""
    store.execute("UPDATE jobs SET heartbeat = ? WHERE id = ? AND status = 'running'", [now(), job])


def progress(store: Store, job: int, fraction: float, message: str) -> None:
    """fraction 0..1 of the whole chain."""
    store.execute(
        "UPDATE jobs SET progress = ?, message = ?, heartbeat = ? WHERE id = ?", [fraction, message, now(), job]
    )


def advance(store: Store, job: int) -> dict | None:
    """Go to the chain's next step; None (and the job done) after the last."""
    with store.write() as db:
        row = get_job(store, job)
        position = row["position"] + 1
        if position == len(row["chain"]):
            _finish(store, row, "done", "Done", None)
            db.execute("UPDATE jobs SET progress = 1 WHERE id = ?", [job])
            return None
        db["jobs"].update(job, {**_at(row["chain"], position), "progress": position / len(row["chain"])})
        return get_job(store, job)


def end(store: Store, job: int, status: str, message: str = "", error: str | None = None) -> None:
    """The worker leaves a job that is not done: paused, cancelled, interrupted or failed."""
    with store.write():
        _finish(store, get_job(store, job), status, message, error)


def defer(store: Store, job: int, message: str) -> bool:
    """A running job goes back to wait in the long lane; False if something else is wanted of it."""
    change = "UPDATE jobs SET status = 'queued', lane = ?, pid = NULL, message = ? WHERE id = ? AND wants = 'run'"
    return store.execute(change, [LONG, message, job]).rowcount == 1


def _finish(store: Store, row: dict, status: str, message: str, error: str | None) -> None:
    values = {"status": status, "message": message, "error": error, "finished": now(), "pid": None, "wants": "run"}
    store.db["jobs"].update(row["id"], values)
    if status == "done":
        return
    current = row["run"] if row["verb"] in ("pretrain", "fit") else None
    if current:
        store.db.execute("UPDATE runs SET status = ? WHERE id = ?", [_RUN_STATUS[status], current])
    if row["run"] and error:
        log(store, row["run"], error)
    if status in ("cancelled", "failed"):
        for one in row["chain"][row["position"] + 1 :]:
            if one["verb"] in ("pretrain", "fit"):
                store.db.execute("UPDATE runs SET status = 'new' WHERE id = ? AND status = 'queued'", [one["run"]])


def ensure_worker(store: Store) -> list[int]:
    """Start a worker in a session of its own for each lane in which a job waits; returns their process ids.

    One too many leaves by itself.
    """
    reap(store)
    waiting = {row["lane"] for row in store.query("SELECT DISTINCT lane FROM jobs WHERE status = 'queued'")}
    line = [sys.executable, "-m", "core.studio.jobs.worker", "--home", str(store.home.path), "--lane"]
    root, out = Path(__file__).resolve().parents[3], store.home.path / "worker.log"
    return [detached([*line, lane], root, out) for lane in LANES if lane in waiting]

"""Jobs: chains of steps (pretrain -> fit -> score -> evaluate), executed by worker processes, one per queue.

The page reads a job's progress and writes requests to the column `wants`. Jobs continue when the page is closed.

There are two queues, which each run one job at a time. Chains that train or fit are in the long queue. All others
(import, scoring, evaluation, maps) are in the short queue, unless a long job still has a step on one of their runs.
Then they wait for that job in the long queue. A map needs only a run's encoder, so it waits for the training of the
encoder, but not for later fits. If the map's epochs are given, they are already saved, and it does not wait.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from core.studio.db.journal import log
from core.studio.db.store import NotFound, Store, now, parsed
from core.studio.jobs.processes import detached, is_alive, start_of
from core.studio.jobs.steps import STEPS


def submit(store: Store, steps: list[dict], start: bool = True) -> int:
    """Queues a job with the steps [{"step", "run", "args"}]; returns its id. `start` also starts a worker for it.

    Raises ValueError if a step or run is unknown, or if a run to be trained or fitted is already in an unfinished job.
    """
    if not steps:
        raise ValueError("a job needs at least one step")
    chain = [{"step": s["step"], "run": s.get("run") or "", "args": s.get("args") or {}} for s in steps]
    for step in chain:
        if step["step"] not in STEPS:
            raise ValueError(f"unknown job step {step['step']!r}; choose from: {', '.join(sorted(STEPS))}")
    with store.write() as db:
        for run in {step["run"] for step in chain if step["run"]}:
            if store.one("SELECT 1 FROM runs WHERE id = ?", [run]) is None:
                raise NotFound(f"unknown run {run!r}")
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
    """Returns the queued or running job with the same `key`, or queues a new one, in a single transaction.

    `key` is a sequence of JSON values that identifies the request, so that equal requests share a job. `chain` is
    called only for a new job; it creates the runs and returns the steps.
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
    """Returns the distinct runs of the steps with the given names in a job, in order."""
    return list(dict.fromkeys(step["run"] for step in job["chain"] if step["step"] in steps))


def _refuse_twice(store: Store, run: str) -> None:
    rows = store.query("SELECT id, chain FROM jobs WHERE status IN (?, ?, ?, ?)", NOT_ENDED)
    for row in rows:
        if any(s["run"] == run and s["step"] in TRAINS for s in json.loads(row["chain"])):
            raise ValueError(f"run {run} is already in job {row['id']}: resume or cancel that job")


def list_jobs(store: Store, *statuses: str, limit: int = 200) -> list[dict]:
    """Returns up to `limit` jobs (with the given statuses, if any), unfinished before ended jobs, each newest first."""
    reap(store)
    where = f"WHERE status IN ({', '.join('?' * len(statuses))})" if statuses else ""
    ended = "status IN ('done', 'failed', 'cancelled')"
    rows = store.query(f"SELECT * FROM jobs {where} ORDER BY {ended}, id DESC LIMIT ?", [*statuses, limit])
    return [parsed(row, *JSON) for row in rows]


def pause(store: Store, job: int) -> str:
    """Pauses a job; returns its status ('running' until its worker stops). Raises ValueError if the job has ended."""
    return _ask(store, job, "pause", "paused", ("queued", "interrupted"))


def cancel(store: Store, job: int) -> str:
    """Cancels a job but keeps the files of its runs; returns its status. Raises ValueError if the job has ended."""
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
    """Requeues a stopped job from its last checkpoint; returns its status. Raises ValueError if the job is done."""
    reap(store)
    with store.write() as db:
        row = get_job(store, job)
        if row["status"] in ("queued", "running"):
            if row["wants"] == "pause":  # the job has not stopped yet, so it simply continues
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
    """Starts a worker process for each queue with queued jobs; returns the process ids.

    Superfluous workers end automatically.
    """
    reap(store)
    waiting = {row["queue"] for row in store.query("SELECT DISTINCT queue FROM jobs WHERE status = 'queued'")}
    line = [sys.executable, "-m", "core.studio.jobs.worker", "--home", str(store.home.path), "--queue"]
    root, out = Path(__file__).resolve().parents[3], store.home.path / "worker.log"
    return [detached([*line, queue], root, out) for queue in QUEUES if queue in waiting]


JSON = ("chain", "args")
NOT_ENDED = ("queued", "running", "paused", "interrupted")  # statuses of jobs that can continue
TRAINS = ("pretrain", "fit")  # steps that create a run, whose status follows the job's
_RUN_STATUS = {
    "queued": "queued", "paused": "stopped", "cancelled": "stopped", "interrupted": "interrupted", "failed": "failed",
}  # fmt: skip


def at_position(chain: list[dict], position: int) -> dict:
    """Returns the columns of a job's row that describe the step at `position` of the chain."""
    step = chain[position]
    return {"position": position, "step": step["step"], "run": step["run"] or None, "args": json.dumps(step["args"])}


def get_job(store: Store, job: int) -> dict:
    """Returns the row of a job, with parsed chain and arguments. Raises NotFound if the job is unknown."""
    row = store.one("SELECT * FROM jobs WHERE id = ?", [job])
    if row is None:
        raise NotFound(f"unknown job {job}; `jobs` lists them")
    return parsed(row, *JSON)


def reap(store: Store) -> list[int]:
    """Marks jobs whose worker has died as 'interrupted' ('paused' or 'cancelled' if requested); returns their ids."""
    gone = []
    for row in store.query("SELECT * FROM jobs WHERE status = 'running'"):
        if not is_alive(row["pid"], row["pid_start"]):
            with store.write():
                again = store.first("SELECT * FROM jobs WHERE id = ?", [row["id"]])
                if again["status"] != "running" or again["pid"] != row["pid"]:
                    continue
                status = {"pause": "paused", "cancel": "cancelled"}.get(again["wants"], "interrupted")
                reason = "the worker process ended unexpectedly" if status == "interrupted" else None
                finish(store, parsed(again, *JSON), status, "Interrupted; Resume continues it", reason)
                gone.append(row["id"])
    return gone


def finish(store: Store, row: dict, status: str, message: str, error: str | None) -> None:
    """Records the end of a job (its row from `get_job`) and its runs' status. Call this inside `store.write()`."""
    values = {"status": status, "message": message, "error": error, "finished": now(), "pid": None, "wants": "run"}
    store.db.table("jobs").update(row["id"], values)
    if status == "done":
        return
    current = row["run"] if row["step"] in TRAINS else None
    if current:
        store.db.execute("UPDATE runs SET status = ? WHERE id = ?", [_RUN_STATUS[status], current])
    if row["run"] and error:
        log(store, row["run"], error)
    if status in ("cancelled", "failed"):
        for step in row["chain"][row["position"] + 1 :]:
            if step["step"] in TRAINS:
                store.db.execute("UPDATE runs SET status = 'new' WHERE id = ? AND status = 'queued'", [step["run"]])


LONG, SHORT = "long", "short"
# Chains with "gives_way" in a step's arguments (the demo's training run) come last and stop for all other jobs.
GIVES_WAY = "EXISTS (SELECT 1 FROM json_each({job}.chain) s WHERE json_extract(s.value, '$.args.gives_way'))"
QUEUES = (SHORT, LONG)


def queue_of(store: Store, steps: list[dict]) -> tuple[str, str]:
    """Returns the queue for the remaining steps of a job, and a message if it has to wait for another job, or ""."""
    if any(STEPS[step["step"]].long for step in steps):
        return LONG, ""
    awaited_jobs = [_awaited_by(store, step) for step in steps if step["run"]]
    job = max((j for j in awaited_jobs if j is not None), default=None)
    return (SHORT, "") if job is None else (LONG, f"Waits for job {job}, which still uses this run")


def _awaited_by(store: Store, step: dict) -> int | None:
    if step["step"] != "embed":
        return awaited(store, [step["run"]])
    return None if step["args"].get("config", {}).get("epochs") else awaited(store, [step["run"]], "pretrain")


def awaited(store: Store, runs: Iterable[str], step: str | None = None) -> int | None:
    """Returns the id of the newest active long job with a remaining step (any, or `step`) on one of `runs`, or None."""
    run_ids, job = set(runs), None
    query = "SELECT id, chain, position FROM jobs WHERE queue = 'long' AND status IN ('queued', 'running') ORDER BY id"
    for row in store.query(query) if run_ids else ():
        if any(s["run"] in run_ids and step in (None, s["step"]) for s in json.loads(row["chain"])[row["position"] :]):
            job = row["id"]
    return job


def others_wait(store: Store, job: int) -> bool:
    """Returns whether a job must give way, as the demo's training does, to a job that waits in the same queue."""
    query = (
        f"SELECT 1 FROM jobs j JOIN jobs q ON q.queue = j.queue AND q.status = 'queued' "
        f"WHERE j.id = ? AND {GIVES_WAY.format(job='j')} AND NOT {GIVES_WAY.format(job='q')} LIMIT 1"
    )
    return store.one(query, [job]) is not None


def running_in_other_queue(store: Store, queue: str) -> int | None:
    """Returns the id of the job that is running in the other queue, or None. Each queue runs one job at a time."""
    row = store.one("SELECT id FROM jobs WHERE queue != ? AND status = 'running'", [queue])
    return row["id"] if row else None


def claim(store: Store, queue: str | None = None, job: int | None = None) -> dict | None:
    """Claims the oldest queued job of an idle queue for this process; returns its row, or None if there is no such job.

    Jobs that give way to others come last. `queue` restricts the claim to one queue, and `job` to one job. The claim is
    a single SQL statement, so that two workers cannot claim the same job.
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
    """Returns the latest request concerning a job: 'run', 'pause' or 'cancel'."""
    row = store.one("SELECT wants FROM jobs WHERE id = ?", [job])
    return row["wants"] if row else "cancel"


def heartbeat(store: Store, job: int) -> None:
    """Records that the worker of a running job is alive."""
    store.execute("UPDATE jobs SET heartbeat = ? WHERE id = ? AND status = 'running'", [now(), job])


def progress(store: Store, job: int, fraction: float, message: str) -> None:
    """Records the progress of a job's whole chain, from 0 to 1, and a message that says what the job is doing."""
    store.execute(
        "UPDATE jobs SET progress = ?, message = ?, heartbeat = ? WHERE id = ?", [fraction, message, now(), job]
    )


def advance(store: Store, job: int) -> dict | None:
    """Advances a job to its next step and returns its row. After the last step, ends the job and returns None."""
    with store.write() as db:
        row = get_job(store, job)
        position = row["position"] + 1
        if position == len(row["chain"]):
            finish(store, row, "done", "Done", None)
            db.execute("UPDATE jobs SET progress = 1 WHERE id = ?", [job])
            return None
        db.table("jobs").update(job, {**at_position(row["chain"], position), "progress": position / len(row["chain"])})
        return get_job(store, job)


def extend(store: Store, job: int, steps: list[dict]) -> None:
    """Appends steps [{"step", "run", "args"}] to the chain of a running job."""
    with store.write() as db:
        chain = [*get_job(store, job)["chain"], *steps]
        db.execute("UPDATE jobs SET chain = ? WHERE id = ?", [json.dumps(chain), job])


def end(store: Store, job: int, status: str, message: str = "", error: str | None = None) -> None:
    """Records that a job stopped early, with the status 'paused', 'cancelled', 'interrupted' or 'failed'."""
    with store.write():
        finish(store, get_job(store, job), status, message, error)


def defer(store: Store, job: int, message: str) -> bool:
    """Puts a running job back into the long queue. Returns False, without any change, if the job was asked to stop."""
    change = "UPDATE jobs SET status = 'queued', queue = ?, pid = NULL, message = ? WHERE id = ? AND wants = 'run'"
    return store.execute(change, [LONG, message, job]).rowcount == 1

"""Rows of jobs: reading one, ending one, and detecting that its worker process has ended."""

from __future__ import annotations

import json

from core.studio.db.journal import log
from core.studio.db.store import NotFound, Store, now, parsed
from core.studio.jobs.processes import is_alive

JSON = ("chain", "args")
NOT_ENDED = ("queued", "running", "paused", "interrupted")  # statuses of jobs that can continue
TRAINS = ("pretrain", "fit")  # steps that create a run, whose status follows the job's
_RUN_STATUS = {
    "queued": "queued", "paused": "stopped", "cancelled": "stopped", "interrupted": "interrupted", "failed": "failed",
}  # fmt: skip


def at_position(chain: list[dict], position: int) -> dict:
    """Returns the columns of a job that describe the current step of its chain."""
    step = chain[position]
    return {"position": position, "step": step["step"], "run": step["run"] or None, "args": json.dumps(step["args"])}


def get_job(store: Store, job: int) -> dict:
    """Returns the row of a job, with chain and args as values. Raises NotFound for an unknown job."""
    row = store.one("SELECT * FROM jobs WHERE id = ?", [job])
    if row is None:
        raise NotFound(f"there is no job {job}; `jobs` lists them")
    return parsed(row, *JSON)


def reap(store: Store) -> list[int]:
    """Ends jobs whose worker has died as 'interrupted', paused or cancelled; returns their ids."""
    gone = []
    for row in store.query("SELECT * FROM jobs WHERE status = 'running'"):
        if not is_alive(row["pid"], row["pid_start"]):
            with store.write():
                again = store.first("SELECT * FROM jobs WHERE id = ?", [row["id"]])
                if again["status"] != "running" or again["pid"] != row["pid"]:
                    continue
                status = {"pause": "paused", "cancel": "cancelled"}.get(again["wants"], "interrupted")
                reason = "the worker process ended without a word" if status == "interrupted" else None
                finish(store, parsed(again, *JSON), status, "Interrupted; Resume goes on", reason)
                gone.append(row["id"])
    return gone


def finish(store: Store, row: dict, status: str, message: str, error: str | None) -> None:
    """Records the end of a job and the status of its runs. Call it inside `store.write()`. row: from `get_job`."""
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

"""The two queues of jobs: trainings run one at a time; jobs that only read finished runs run in parallel to them.

Chains that train or fit are long. All others (import, scoring, evaluation, maps) are short, unless they
use a run on which a long job still has to work: then they wait for it in the long queue. A map needs only a run's
encoder: it does not wait for the fits that follow the training, nor for the training if its epochs are given, because
these are saved already.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from core.studio.db.store import Store
from core.studio.jobs.steps import is_long

LONG, SHORT = "long", "short"
# Chains with "gives_way" in the arguments of their steps (the demo's training) come last and stop for all others.
GIVES_WAY = "EXISTS (SELECT 1 FROM json_each({job}.chain) s WHERE json_extract(s.value, '$.args.gives_way'))"
QUEUES = (SHORT, LONG)
TRAINING = "pretrain"
READS_ENCODER = ("embed",)  # steps that need only the training of a run


def queue_of(store: Store, steps: list[dict]) -> tuple[str, str]:
    """Returns the queue of the remaining steps of a chain, and the message while it waits."""
    if any(is_long(step["step"]) for step in steps):
        return LONG, ""
    awaited_jobs = [_awaited_by(store, step) for step in steps if step["run"]]
    job = max((j for j in awaited_jobs if j is not None), default=None)
    return (SHORT, "") if job is None else (LONG, f"Waits for job {job}, which is not done with this run yet")


def _awaited_by(store: Store, step: dict) -> int | None:
    """Returns the job that a step must wait for, or None. The epochs of a map, if given, exist already."""
    if step["step"] in READS_ENCODER and (step.get("args") or {}).get("config", {}).get("epochs"):
        return None
    return awaited(store, [step["run"]], TRAINING if step["step"] in READS_ENCODER else None)


def awaited(store: Store, runs: Iterable[str], step: str | None = None) -> int | None:
    """Returns the last queued or running long job with a remaining step (`step`, or any) on one of `runs`, or None."""
    run_ids, job = set(runs), None
    query = "SELECT id, chain, position FROM jobs WHERE queue = 'long' AND status IN ('queued', 'running') ORDER BY id"
    for row in store.query(query) if run_ids else ():
        if any(s["run"] in run_ids and step in (None, s["step"]) for s in json.loads(row["chain"])[row["position"] :]):
            job = row["id"]
    return job


def others_wait(store: Store, job: int) -> bool:
    """Returns whether a job gives way to others and another job waits in its queue."""
    query = (
        f"SELECT 1 FROM jobs j JOIN jobs q ON q.queue = j.queue AND q.status = 'queued' "
        f"WHERE j.id = ? AND {GIVES_WAY.format(job='j')} AND NOT {GIVES_WAY.format(job='q')} LIMIT 1"
    )
    return store.one(query, [job]) is not None


def beside(store: Store, queue: str) -> int | None:
    """Returns the job that is running in the other queue, or None; each queue runs one at a time."""
    row = store.one("SELECT id FROM jobs WHERE queue != ? AND status = 'running'", [queue])
    return row["id"] if row else None

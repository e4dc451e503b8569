"""The two queues of jobs: trainings run one at a time; jobs that only read finished runs go on beside them.

A chain that trains, fits or draws the demo is long. All else (importing new cases, scoring, evaluation, maps) is short,
unless it names a run that a long job has yet to work on: then it goes behind that job, in the long queue. A map needs
a run's encoder alone: it goes beside the fits that follow the training, and beside the training itself where its epochs
are named, because these are saved already.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from core.studio.db.store import Store
from core.studio.jobs.steps import is_long

LONG, SHORT = "long", "short"
# A chain with "gives_way" in the arguments of its steps (the demo's) goes behind all others, and makes room for them.
GIVES_WAY = "EXISTS (SELECT 1 FROM json_each({job}.chain) s WHERE json_extract(s.value, '$.args.gives_way'))"
QUEUES = (SHORT, LONG)
TRAINING = "pretrain"
READS_ENCODER = ("embed",)  # steps for which a run is ready once it is trained


def queue_of(store: Store, steps: list[dict]) -> tuple[str, str]:
    """Returns (queue, message while it waits) of a chain, or of what is left of one."""
    if any(is_long(step["step"]) for step in steps):
        return LONG, ""
    awaited_jobs = [_awaited_by(store, step) for step in steps if step["run"]]
    job = max((j for j in awaited_jobs if j is not None), default=None)
    return (SHORT, "") if job is None else (LONG, f"Waits for job {job}, which is not done with this run yet")


def _awaited_by(store: Store, step: dict) -> int | None:
    """The job that a step must wait for, if any. A map of epochs that are named was asked for when they were there."""
    if step["step"] in READS_ENCODER and (step.get("args") or {}).get("config", {}).get("epochs"):
        return None
    return awaited(store, [step["run"]], TRAINING if step["step"] in READS_ENCODER else None)


def awaited(store: Store, runs: Iterable[str], step: str | None = None) -> int | None:
    """Finds the last queued or running job of the long queue with a step (`step`, or any) on one of `runs` ahead."""
    wanted, job = set(runs), None
    query = "SELECT id, chain, position FROM jobs WHERE queue = 'long' AND status IN ('queued', 'running') ORDER BY id"
    for row in store.query(query) if wanted else ():
        if any(s["run"] in wanted and step in (None, s["step"]) for s in json.loads(row["chain"])[row["position"] :]):
            job = row["id"]
    return job


def others_wait(store: Store, job: int) -> bool:
    """Returns whether a job gives way to others, and one that does not give way waits in its queue."""
    query = (
        f"SELECT 1 FROM jobs j JOIN jobs q ON q.queue = j.queue AND q.status = 'queued' "
        f"WHERE j.id = ? AND {GIVES_WAY.format(job='j')} AND NOT {GIVES_WAY.format(job='q')} LIMIT 1"
    )
    return store.one(query, [job]) is not None


def beside(store: Store, queue: str) -> int | None:
    """Returns the job that runs in the other queue, if any: each queue runs one at a time."""
    row = store.one("SELECT id FROM jobs WHERE queue != ? AND status = 'running'", [queue])
    return row["id"] if row else None

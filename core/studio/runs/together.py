"""A pre-training by several processes: the first owns the run and its job, the others only compute."""

from __future__ import annotations

import json

from core.engine import processes
from core.engine.tensors import pick_device
from core.engine.training import checkpoint
from core.studio.db.store import Store
from core.studio.jobs import here
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from core.studio.runs.encoder_training import train_encoder
from core.studio.runs.pipeline import chain, create_pretrain


def begin(store: Store, study: str, config: dict, name: str | None, device: str) -> tuple[str, int]:
    """(run, queued job) of a training: the last of this very configuration that did not get to its end, or a new one.

    So the same command, given again by torchrun or by a person, goes on from the last checkpoint.
    """
    same = json.loads(json.dumps(config))
    for row in runs.list_runs(store, study, "pretrain"):
        job = here.unfinished(store, row["id"]) if row["config"] == same and name in (None, row["name"]) else None
        if job is not None and not checkpoint.has_diverged(runs.run_folder(store, row["id"])):
            jobs.resume(store, job, start=False)
            return row["id"], job
    run = create_pretrain(store, study, config, name)
    return run, jobs.submit(store, chain(run, device=device), start=False)


def beside(store: Store, run: str, device: str) -> None:
    """What a process does that is not the first: its share of each step. It writes no file and no row."""
    train_encoder(store, runs.get_run(store, run), pick_device(device))


def execute(store: Store, job: int) -> dict:
    """What the first process does; returns the job's row when it has ended."""
    assert processes.is_first()
    return here.execute(store, job)

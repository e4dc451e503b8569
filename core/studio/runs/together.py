"""A training, a fit or scores by several processes: the first owns the run and its job, the others only compute."""

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
from core.studio.runs.fitting import fit_detector
from core.studio.runs.pipeline import chain, create_fit, create_pretrain
from core.studio.runs.scoring import score_beside


def begin(store: Store, study: str, config: dict, name: str | None, device: str) -> tuple[str, int]:
    """Returns (run, queued job) of a training: the last of this very configuration that was not finished, or a new one.

    So the same command, given again by torchrun or by a person, goes on from the last checkpoint.
    """
    begun = _same(store, study, {"kind": "pretrain", "config": config}, name)
    if begun is not None:
        return begun
    run = create_pretrain(store, study, config, name)
    return run, jobs.submit(store, chain(run, device=device), start=False)


def begin_fit(
    store: Store, parent: str, detector: str, config: dict, name: str | None, score: bool, device: str
) -> tuple[str, int]:
    """Returns (run, queued job) of a fit, as `begin` of a training. score: whether its job scores and evaluates."""
    study = runs.get_run(store, parent)["study"]
    like = {"kind": "fit", "parent": parent, "method": detector, "config": config}
    begun = _same(store, study, like, name)
    if begun is not None:
        return begun
    run = create_fit(store, parent, detector, config, name)
    return run, jobs.submit(store, chain(fits=[run], score=score, device=device), start=False)


def _same(store: Store, study: str, like: dict, name: str | None) -> tuple[str, int] | None:
    """The last run that is `like` this and did not get to its end, queued again."""
    like = json.loads(json.dumps(like))
    for row in runs.list_runs(store, study, like["kind"]):
        same = all(row[key] == value for key, value in like.items()) and name in (None, row["name"])
        job = here.unfinished(store, row["id"]) if same else None
        if job is not None and not checkpoint.has_diverged(runs.run_folder(store, row["id"])):
            jobs.resume(store, job, start=False)
            return row["id"], job
    return None


def steps_of(store: Store, job: int) -> list[tuple[str, str]]:
    """Lists what is left of a job: (step, run)."""
    row = jobs.get_job(store, job)
    return [(step["step"], step["run"]) for step in row["chain"][row["position"] :]]


def beside(store: Store, steps: list[tuple[str, str]], device: str) -> None:
    """Does a later process's share of each step. It writes no file and no row."""
    for step, run in steps:
        if step == "pretrain":
            train_encoder(store, runs.get_run(store, run), pick_device(device))
        elif step == "fit":
            fit_detector(store, runs.get_run(store, run), processes.place(pick_device(device)))
        elif step == "score":
            score_beside(store, run, device)


def execute(store: Store, job: int) -> dict:
    """Executes a job as the first process; returns the job's row when it has ended."""
    assert processes.is_first()
    return here.execute(store, job)

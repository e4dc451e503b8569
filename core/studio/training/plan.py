"""The progress of a study's jobs, shown to users as a list of stages with their states and remaining times."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from core.engine.registry import DETECTORS
from core.studio.db.store import NotFound, Store
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from core.studio.training.estimate import Estimate
from core.studio.training.live import total_steps

BEFORE = 4  # number of ended jobs that are listed before the unfinished jobs
GOING = ("running", "queued")


def plan(store: Store, study: str | None) -> dict:
    """Returns the stages of a study's jobs: {"stages", "left", "jobs", "scored"}.

    study: Id of the study, or None if the home has no study.
    stages: List of {"title", "state", "left": remaining seconds, "share": finished fraction}. The state is done,
    running, waiting, failed or stopped. The list is empty if all jobs have ended.
    left: Seconds until all jobs are done.
    jobs: Ids of the running and waiting jobs.
    scored: Whether a run has finished scoring the test cases.
    """
    run_ids = {r["id"] for r in store.query("SELECT id FROM runs WHERE study = ?", [study])} if study else set()
    listed = [j for j in jobs.list_jobs(store) if any(step["run"] in run_ids for step in j["chain"] if step["run"])]
    going_jobs = [j for j in listed if j["status"] in GOING]
    scored = store.one(
        "SELECT 1 FROM readings r JOIN runs f ON f.id = r.run JOIN cases c ON c.id = r.case_id "
        "WHERE f.study = ? AND c.split = 'test' AND f.id NOT IN (SELECT value FROM json_each(?)) LIMIT 1",
        [study, json.dumps(sorted(_to_be_scored(going_jobs)))],
    )
    ids = [j["id"] for j in going_jobs]
    answer: dict[str, Any] = {"stages": [], "left": 0.0, "jobs": ids, "scored": scored is not None}
    if not going_jobs:
        return answer
    ended = sorted((j for j in listed if j["status"] in ("done", "failed", "cancelled")), key=lambda j: -j["id"])
    estimate, counted = Estimate(store), set(ids)
    for job in sorted([*ended[:BEFORE], *going_jobs], key=lambda j: j["id"]):
        first = [j for j in _ahead(store, job) if j["id"] not in counted]
        counted |= {j["id"] for j in first}
        if wait := sum(sum(estimate.steps(j)) for j in first):
            state = "running" if any(j["status"] == "running" for j in first) else "waiting"
            answer["stages"].append(_stage("Other jobs, which run first", state, wait))
        answer["stages"] += _stages(store, job, estimate.steps(job))
    answer["left"] = round(sum(stage["left"] for stage in answer["stages"]), 1)
    return answer


def _ahead(store: Store, job: dict) -> list[dict]:
    """Returns the jobs that run before a waiting job in its queue, in the order of `execution.claim`."""
    if job["status"] != "queued":
        return []
    same_queue = [j for j in jobs.list_jobs(store, *GOING) if j["queue"] == job["queue"] and j["id"] != job["id"]]
    turn = _turn(job)
    return [j for j in same_queue if _turn(j) < turn or (j["status"] == "running" and _turn(j)[0] <= turn[0])]


def _turn(job: dict) -> tuple[bool, int]:
    return any(step["args"].get("gives_way") for step in job["chain"]), job["id"]


def _to_be_scored(going: list[dict]) -> set[str]:
    """Returns the runs whose first scoring is unfinished, so that some cases have no scores yet."""
    unscored = set()
    for job in going:
        fitted = {step["run"] for step in job["chain"] if step["step"] == "fit"}
        unscored |= {step["run"] for step in job["chain"][job["position"] :] if step["step"] == "score"} & fitted
    return unscored


def _stages(store: Store, job: dict, left: list[float]) -> Iterable[dict]:
    """Yields the stages of a job. Adjacent steps of the same run, such as fit, score and evaluate, are one stage."""
    before = 0.0  # seconds of preceding steps without a title, which are added to the next stage
    for (run, maps), steps in groupby(range(len(left)), key=lambda i: (job["chain"][i]["run"], _maps(job["chain"][i]))):
        at = list(steps)
        seconds = before + sum(left[i] for i in at)
        title = _title(store, job["chain"][at[0]], run, maps)
        if title is None:
            before = seconds
            continue
        inside = job["progress"] * len(left) - at[0]
        yield _stage(title, _state(job, at), seconds, min(max(inside / len(at), 0.0), 1.0))
        before = 0.0


def _stage(title: str, state: str, left: float, share: float = 0.0) -> dict:
    is_active = state in ("running", "waiting")
    return {"title": title, "state": state, "left": round(left, 1) if is_active else 0.0, "share": round(share, 4)}


def _maps(step: dict) -> bool:
    return step["step"] == "embed"


def _state(job: dict, at: list[int]) -> str:
    if job["status"] == "done" or job["position"] > at[-1]:
        return "done"
    if job["status"] == "failed":
        return "failed" if job["position"] >= at[0] else "stopped"
    if job["status"] == "cancelled":
        return "stopped"
    return "running" if job["status"] == "running" and job["position"] >= at[0] else "waiting"


def _title(store: Store, step: dict, run_id: str, maps: bool) -> str | None:
    """Returns the title of a stage, or None for an encoder that is not trained, which takes no time."""
    try:
        run = runs.get_run(store, run_id)
    except NotFound:
        return step["step"]
    if step["step"] == "weights":
        return "Prepare to learn from marks" if run["kind"] == "fit" else None
    if maps:
        return "Draw feature map"
    if run["kind"] == "pretrain":
        steps = total_steps(store, run)["steps"]
        return f"Train an encoder, {steps} steps" if steps else None
    title = DETECTORS.title(run["method"])
    if run["name"] == "First look":
        return f"First look: {title[0].lower()}{title[1:]}"
    untrained = run["parent"] and runs.get_run(store, run["parent"])["method"] == "untrained"
    return f"{title} on an untrained encoder, for comparison" if untrained else f"{title}: fit and score"

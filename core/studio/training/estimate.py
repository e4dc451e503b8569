"""Estimates of the remaining time of jobs, from the usual duration of each step and the speed of this machine.

Usual durations are in seconds on two idle processor cores, measured on the demo study. Once steps have been timed on
this machine, only the ratios of usual durations matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from core.engine.objectives.config import PretrainConfig
from core.studio.db.store import NotFound, Store
from core.studio.jobs import times
from core.studio.runs import records as runs
from core.studio.runs.sides import SIZE, side_for

SEEN = 0.03  # fraction of a step after which the estimate uses the step's own speed
TIMED = 2.0  # seconds; shorter steps are not used to measure the machine's speed
_FIT = {"lesion-head": 150.0, "igd": 60.0, "padim": 6.0}  # seconds of a fit with the quick presets
_IMAGE = 0.0105  # seconds to read an image of SIZE x SIZE pixels and to fit or score it


def usual_seconds(store: Store, step: str, run: dict | None, args: dict) -> float:
    """Returns the seconds that a step usually takes on two idle cores.

    run: Row of a run, or {"study", "method", "config"} of a future run, or None for a step without a run.
    """
    return 10.0 if run is None else _WORK.get(step, lambda *_: 10.0)(store, run, args)


def _cases(store: Store, run: dict, *splits: str) -> int:
    marks = ", ".join("?" * len(splits))
    query = f"SELECT count(*) AS n FROM cases WHERE study = ? AND split IN ({marks})"
    return store.first(query, [run["study"], *splits])["n"]


def _train(store: Store, run: dict, args: dict) -> float:
    config = run["config"]
    if not config.get("epochs"):
        return 3.0  # an encoder that is not trained
    settings, images = PretrainConfig.from_dict(runs.settings_of(config)), _cases(store, run, "train")
    images_read = settings.length(images)[0] * min(settings.sources, images)
    return 3.0 + 0.034 * images_read * (settings.size / 64) ** 2


def _fit(store: Store, run: dict, args: dict) -> float:
    seconds = _FIT.get(run["method"])
    if seconds is None:
        head = 0.18 * run["config"].get("head", {}).get("steps", 600) if run["method"] == "blend-head" else 0.0
        return 3.0 + _IMAGE * _cases(store, run, "train") + head
    longer = run["config"].get("steps", 1200) / 1200 if run["method"] == "lesion-head" else 1.0
    return seconds * longer


def _map(store: Store, run: dict, args: dict) -> float:
    return 5.0 * max(len(args.get("config", {}).get("epochs") or [1]), 1)


_WORK: dict[str, Callable[[Store, dict, dict], float]] = {
    "pretrain": _train,
    "fit": _fit,
    "weights": lambda store, run, args: (_train if run["kind"] == "pretrain" else _fit)(store, run, args),
    "score": lambda store, run, args: 2.0 + _IMAGE * _cases(store, run, "holdout", "test"),
    "evaluate": lambda store, run, args: 1.0 + 0.006 * _cases(store, run, "test"),
    "embed": _map,
}


class Estimate:
    """Estimates the remaining seconds of jobs. Each instance reads the machine's speed once."""

    def __init__(self, store: Store):
        self.store = store
        self.slower = self._slower()

    def _slower(self) -> float:
        """Returns the factor by which recent steps took longer than usual, or 1 if no step was timed."""
        took = expected = 0.0
        for row in times.finished(self.store):
            if row["seconds"] < TIMED:
                continue
            chain = json.loads(self.store.first("SELECT chain FROM jobs WHERE id = ?", [row["job"]])["chain"])
            took += row["seconds"]
            expected += self._usual(chain[row["position"]])
        return took / expected if expected else 1.0

    def _usual(self, step: dict) -> float:
        try:
            run = runs.get_run(self.store, step["run"] or "")
        except NotFound:
            run = None
        return usual_seconds(self.store, step["step"], run, step.get("args") or {})

    def steps(self, job: dict) -> list[float]:
        """Returns the remaining seconds of each step of a job, 0 for finished steps. `job` is a result of `get_job`."""
        remaining = [self.slower * self._usual(step) for step in job["chain"]]
        at = job["position"]
        remaining[:at] = [0.0] * at
        share = times.share_of(job)
        progress = times.present(self.store, job) if job["status"] == "running" else None
        if progress and progress[1] >= SEEN:
            remaining[at] = progress[0] * (1 - share) / progress[1]
        else:
            remaining[at] *= 1 - share
        return [0.0] * len(remaining) if job["status"] in ("done", "failed", "cancelled") else remaining


def first_look(store: Store, study: str) -> float:
    """Returns the estimated seconds of a first look at a study: fitting a quick detector and scoring test images."""
    counted = store.query("SELECT split, count(*) AS n FROM cases WHERE study = ? GROUP BY split", [study])
    images = sum(row["n"] for row in counted)
    tests = sum(row["n"] for row in counted if row["split"] == "test")
    larger = (side_for(store, study) / SIZE) ** 2
    return round(Estimate(store).slower * (9.5 + _IMAGE * larger * (images + tests)), 1)

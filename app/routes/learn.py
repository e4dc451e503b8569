"""Routes for learning from readers' annotations: the annotations, the runs that learnt from them, and their gain."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter

from app.access.permissions import Administrator, Sighted, Studio
from app.routes._shared import Job
from app.routes._types import Answer, Body, Done, Name, Part
from core.studio.db.store import Store
from core.studio.review.cases import scored_runs
from core.studio.runs import learnt, marks, preferred
from core.studio.runs import records as runs
from core.studio.runs.preferred import LEARNT
from core.studio.training import live

router = APIRouter(prefix="/api/learn", tags=["learn"])
SHOWN = 5  # newest runs that are listed


class Learn(Body):
    """Request to learn from readers' annotations. `fit` is the id of the scored fit to start from."""

    fit: Name


class LearnFit(Part):
    """Scored fit from which learning can start. `seconds` is the estimated time until a first result."""

    id: str
    name: str
    title: str
    seconds: float | None


class MeasureBeside(Part):
    """Metric before (`old`) and after (`new`) learning, computed on `images` images.

    interval: 95 % confidence interval of the difference.
    enough: Whether there are enough images for a conclusion.
    """

    old: float | None
    new: float | None
    difference: float | None
    interval: tuple[float, float] | None
    images: int
    enough: bool


class FlagsBeside(Part):
    """Three numbers for abnormal and for normal cases: all cases, flagged by the old run, flagged by the new run."""

    abnormal: tuple[int, int, int]
    normal: tuple[int, int, int]


class RunComparison(Part):
    """Comparison of a run with the run `base` that it started from, on `cases` test cases that it has not learnt from.

    left_out: Number of excluded test cases: the run learnt from them, or they lack both a label and a clear decision.
    against: Description of the masks that serve as ground truth.
    pictured: Ids of example cases, in order from the largest gain in Dice to the largest loss.
    """

    base: str
    run: str
    cases: int
    left_out: int
    against: str
    measures: dict[Literal["auroc", "pixel_auroc", "dice", "pro"], MeasureBeside]
    flags: FlagsBeside | None
    pictured: list[int]
    verdict: Literal["better", "worse", "mixed", "same", "few"]
    words: str


class LearntGain(Part):
    """Gain from learning, measured by cross-validation on the annotated images.

    base_dice, dice: Mean Dice before and after learning.
    difference: Mean difference in Dice, with its 95 % confidence `interval`.
    weight, score_weight: Weight of the previous detector in the combined heat map, and in the combined image score.
    """

    weight: float
    score_weight: float
    images: int
    folds: int
    base_dice: float | None
    dice: float | None
    difference: float | None
    interval: tuple[float, float] | None
    words: str


class LearntRun(Part):
    """Run that learnt from readers' annotations.

    masks: Number of lesion masks that the run learnt from.
    share: Weight of the learnt heat map in a run made by version 0.2, or null for newer runs.
    gain: Cross-validated gain, or null until the run is fitted.
    headline: Sentence on what learning changed, or null.
    fault: Reason why the run cannot be repeated, or null.
    """

    id: str
    name: str
    created: str
    status: str
    base: str
    masks: int
    share: float | None
    gain: LearntGain | None
    headline: str | None
    fault: str | None
    job: Job | None
    comparison: RunComparison | None


class Learning(Answer):
    """Annotations from which detectors can learn in a study, and the runs that learnt from them.

    masks, patients: Numbers of cases with a usable accepted lesion mask, and of their patients (images if unknown).
    least: Minimum number of patients for learning.
    unfinished: Number of cases whose reader has not stated that all lesions are annotated.
    normals: Number of cases that readers called normal, which are also used for learning.
    kinds: Number of masks by label, for labels that are learnt as separate kinds of lesion.
    whole: Number of masks that are not used because they cover the whole image.
    contradicting: Number of cases that are not used until an adjudicator resolves the readers' disagreement.
    notes: Sentences on annotations that are not used or are incomplete.
    none: Reason why there are no usable masks, or null.
    next: Number of masks at which learning will next be offered, or null.
    due: Whether learning should be offered now, because such a number has been reached since the last learning run.
    decided: Number of cases with a decision.
    """

    masks: int
    patients: int
    readers: list[str]
    least: int
    unfinished: int
    normals: int
    kinds: dict[str, int]
    whole: int
    contradicting: int
    notes: list[str]
    none: str | None
    next: int | None
    due: bool
    decided: int
    fits: list[LearnFit]
    learnt: list[LearntRun]


class AskedLearning(Answer):
    job: int
    run: str


@router.get("/{study}", response_model=Learning)
def show(ctx: Studio, who: Sighted, study: str):
    """Returns the annotations to learn from, and the runs that learnt from them, compared with their base runs."""
    store = ctx.store()
    fits = [r for r in scored_runs(store, study) if r["method"] != LEARNT]
    jobs = live.jobs_of_runs(store)
    taught = [r for r in runs.list_runs(store, study, kind="fit") if r["method"] == LEARNT]
    return {
        "ok": True,
        **learnt.offered(store, study),
        "fits": [
            {**{k: r[k] for k in ("id", "name", "title")}, "seconds": learnt.seconds(store, r["id"])} for r in fits
        ],
        "learnt": [_learnt(store, r, live.brief(jobs.get(r["id"]))) for r in taught[: -SHOWN - 1 : -1]],
    }


@router.post("/{study}", response_model=AskedLearning)
def learn(ctx: Studio, who: Sighted, study: str, body: Learn):
    """Queues a run that starts from a fit and learns from readers' annotations."""
    store = ctx.store()
    if runs.get_run(store, body.fit)["study"] != study:
        raise ValueError(f"The run {body.fit} does not belong to this study. Choose one of its fits.")
    planned = learnt.planned(store, body.fit)
    with ctx.making(who, "run") as record_owner:
        learning = learnt.submit(store, planned, device=store.setting("device", "auto"))
        record_owner([learning["run"]])
    return {"ok": True, **learning}


class Adopted(Body):
    """Request to put a run first among a study's detectors. An empty `run` withdraws the earlier choice."""

    run: Name = ""


@router.post("/{study}/adopt", response_model=Done)
def adopt(ctx: Studio, who: Administrator, study: str, body: Adopted):
    """Puts a run first among a study's detectors, for all readers. An empty `run` withdraws the earlier choice."""
    store = ctx.store()
    if body.run and body.run not in {r["id"] for r in scored_runs(store, study)}:
        raise ValueError(f"The run {body.run} has not scored this study, so it cannot be adopted.")
    preferred.adopt(store, study, body.run or None, who)
    return {"ok": True}


# Runs of earlier versions, and of bundles, lack these fields.
_OLDER: dict[str, Any] = {"against": "", "flags": None, "pictured": []}


def _learnt(store: Store, run: dict, job: dict | None) -> dict:
    brief_row = {k: run[k] for k in ("id", "name", "created", "status")}
    rule, comparison = run["summary"].get("rule"), run["summary"].get(learnt.KEPT)
    return {
        **brief_row,
        "base": run["config"]["base_run"],
        "masks": runs.marks_count(run),
        "share": rule.get("share") if rule else None,
        "gain": {k: rule[k] for k in LearntGain.__annotations__} if rule and "weight" in rule else None,
        "headline": learnt.headline(run),
        "fault": marks.repeat_problem(store, run),
        "job": job,
        "comparison": comparison and {**_OLDER, **comparison},
    }

"""Learning from readers' marks: the material, the runs that learnt from it, and how they compare."""

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
SHOWN = 5  # the newest runs


class Learn(Body):
    """A request to learn from readers' marks. fit: id of the scored fit to start from."""

    fit: Name


class LearnFit(Part):
    """A scored fit from which learning can continue. seconds: an estimate of the time; null if unknown."""

    id: str
    name: str
    title: str
    seconds: float | None


class MeasureBeside(Part):
    """A metric before (old) and after (new) learning.

    interval: 95 % confidence interval of the difference. enough: whether there are enough images for a conclusion.
    """

    old: float | None
    new: float | None
    difference: float | None
    interval: tuple[float, float] | None
    images: int
    enough: bool


class FlagsBeside(Part):
    """The numbers of abnormal and normal cases, and how many of them the old and the new run flag."""

    abnormal: tuple[int, int, int]
    normal: tuple[int, int, int]


class LearntBeside(Part):
    """A run compared with the run that it started from, on `cases` test cases with a known label that it has not seen.

    left_out: number of the other test cases: seen in learning, or without a label or clear decision. pictured: example
    cases, from the largest gain to the largest loss.
    """

    base: str
    run: str
    cases: int
    left_out: int
    against: str  # the masks that outlines are compared with, in words
    measures: dict[Literal["auroc", "pixel_auroc", "dice", "pro"], MeasureBeside]
    flags: FlagsBeside | None
    pictured: list[int]
    verdict: Literal["better", "worse", "mixed", "same", "few"]
    words: str


class LearntGain(Part):
    """The gain from learning on marked cases, by cross-validation.

    base_dice, dice: mean Dice before and after; difference: with its 95 % interval. weight, score_weight: weights of
    the previous detector in the map and in the image's score. words: all of this in words.
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
    """A run that learnt from readers' marks.

    share: weight of the learnt map in a run of version 0.2 (0 if it did not help on held-out marked images), else null.
    gain: null until the run is fitted. headline: what learning changed, in one sentence. fault: why the run cannot be
    repeated, or null.
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
    comparison: LearntBeside | None


class Learning(Answer):
    """The material for learning in a study, and the runs that learnt from it.

    masks, patients: numbers of accepted masks and their patients; learning needs `least` patients (or images, if they
    are unknown). unfinished: number of cases with a mask whose reader has not confirmed that all lesions are marked.
    normals: number of cases called normal, which are used too. kinds: number of masks by label, for labels learnt as
    separate kinds. whole: number of masks that cover their whole image and are not used. contradicting: number of cases
    on which readers disagree, not used before adjudication. notes: sentences on everything skipped or unknown. none:
    why learning is impossible, or null. next: number of masks at which learning is offered next. due: whether such a
    number was reached since the last learning. decided: number of cases with a decision.
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
    """Return the material for learning, the runs that learnt from it, and how they compare."""
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
    """Queue a run that continues from a fit and learns from readers' marks."""
    store = ctx.store()
    if runs.get_run(store, body.fit)["study"] != study:
        raise ValueError(f"{body.fit} is no fit of this study")
    planned = learnt.planned(store, body.fit)
    with ctx.making(who, "run") as record_owner:
        learning = learnt.submit(store, planned, device=store.setting("device", "auto"))
        record_owner([learning["run"]])
    return {"ok": True, **learning}


class Adopted(Body):
    """A run to put first among a study's detectors. run: the scored fit; "" undoes the choice."""

    run: Name = ""


@router.post("/{study}/adopt", response_model=Done)
def adopt(ctx: Studio, who: Administrator, study: str, body: Adopted):
    """Put a run first among the study's detectors for all readers, or undo this.

    Like moving the operating point, it changes what all readers see, and requires the same right.
    """
    store = ctx.store()
    if body.run and body.run not in {r["id"] for r in scored_runs(store, study)}:
        raise ValueError(f"{body.run} has not scored this study: it cannot be adopted")
    preferred.adopt(store, study, body.run or None, who)
    return {"ok": True}


# Not stored in runs of earlier versions and of bundles.
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
        "fault": marks.fault(store, run),
        "job": job,
        "comparison": comparison and {**_OLDER, **comparison},
    }

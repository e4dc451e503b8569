"""Learning from what readers marked: what there is to learn from, what was learnt, and how it compares."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter

from app.access.permissions import Administrator, Sighted, Studio
from app.routes._shared import Job
from app.routes._types import Answer, Body, Done, Name, Part
from core.studio.db.store import Store
from core.studio.ingest.studies import study_row
from core.studio.review.cases import scored_runs
from core.studio.runs import learnt, marks, preferred
from core.studio.runs import records as runs
from core.studio.runs.preferred import LEARNT
from core.studio.training import live

router = APIRouter(prefix="/api/learn", tags=["learn"])
SHOWN = 5  # of what was learnt, the latest


class Learn(Body):
    """What to learn on from. fit: the scored fit."""

    fit: Name


class LearnFit(Part):
    """A scored fit that can be learnt on from. seconds: about how long that takes; null where it is not known."""

    id: str
    name: str
    title: str
    seconds: float | None


class MeasureBeside(Part):
    """A measure of a run beside that of the one it learnt on from.

    interval: 95 %, of the difference. enough: whether there are enough images to tell.
    """

    old: float | None
    new: float | None
    difference: float | None
    interval: tuple[float, float] | None
    images: int
    enough: bool


class FlagsBeside(Part):
    """How many abnormal and normal cases there are, and how many of them the old and the new run flag."""

    abnormal: tuple[int, int, int]
    normal: tuple[int, int, int]


class LearntBeside(Part):
    """A run compared with the one that it learnt on from, on `cases` that it has not seen; `left_out` it has.

    pictured: cases that show it, from the largest gain to the largest loss.
    """

    base: str
    run: str
    cases: int
    left_out: int
    against: str  # which masks the figures of outlines are computed against, in words
    measures: dict[Literal["auroc", "pixel_auroc", "dice", "pro"], MeasureBeside]
    flags: FlagsBeside | None
    pictured: list[int]
    verdict: Literal["better", "worse", "mixed", "same", "few"]
    words: str


class LearntGain(Part):
    """What learning gains on marked cases that were left out in turn.

    Dice before and after, their mean difference with its 95 % interval. weight, score_weight: of the detector before,
    in the map and in the image's score. words: of all this.
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
    """A run that learnt from what readers marked.

    share: of the learnt map in a run of version 0.2, 0 where it did not help on marked images left out. gain: null
    until it is fitted. headline: what learning changed, in one sentence. fault: why it cannot be repeated, if so.
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
    """What there is to learn from in a study, and what was learnt.

    masks, patients: accepted ones; it takes `least` patients, or images where these are not known. unfinished: cases
    with a mask whose reader has not said that all is marked. normals: cases called normal, which teach too. kinds:
    masks by label, of labels that become kinds of their own. whole: masks that cover their image and teach nothing.
    contradicting: cases whose readers contradict each other, which teach nothing before they are adjudicated. notes:
    sentences on all that is left out or not known. none: why there is nothing to learn from. next: number of masks at
    which learning is offered next. due: whether one was reached since it last learnt. decided: cases with a decision.
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
    """Shows what there is to learn from, what was learnt, and how it compares."""
    store = ctx.store()
    study_row(store, study)
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
    """Queue a run that learns on from a fit with what readers marked."""
    store = ctx.store()
    if runs.get_run(store, body.fit)["study"] != study_row(store, study)["id"]:
        raise ValueError(f"{body.fit} is no fit of this study")
    planned = learnt.planned(store, body.fit)
    with ctx.making(who, "run") as own:
        learning = learnt.submit(store, planned, device=store.setting("device", "auto"))
        own([learning["run"]])
    return {"ok": True, **learning}


class Adopted(Body):
    """A run to put first among a study's detectors. run: the scored fit; "" rolls back."""

    run: Name = ""


@router.post("/{study}/adopt", response_model=Done)
def adopt(ctx: Studio, who: Administrator, study: str, body: Adopted):
    """Put a run first among the study's detectors, for all its readers, or take that back.

    It changes what all of them see, as a moved operating point does, and takes the same right.
    """
    store = ctx.store()
    study = study_row(store, study)["id"]
    if body.run and body.run not in {r["id"] for r in scored_runs(store, study)}:
        raise ValueError(f"{body.run} has not scored this study: it cannot be adopted")
    preferred.adopt(store, study, body.run or None, who)
    return {"ok": True}


# What runs of earlier versions and of bundles do not keep.
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

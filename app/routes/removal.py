"""Removal of data: the bin, which keeps removed runs and studies for a week, and permanent erasure of a patient.

Only administrators erase: what is stored is described first, then deleted.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter

from app.access.permissions import Administrator, Sighted, Studio, owner_of
from app.routes._types import Answer, Body, Done, Id, Line, Part
from core.studio.db import owners
from core.studio.review import erasing
from core.studio.runs import bin

router = APIRouter(tags=["removal"])


class Binned(Part):
    """A run or a study in the bin."""

    kind: Literal["run", "study"]
    id: str
    name: str
    study: str
    binned: str
    until: str


class Bin(Answer):
    rows: list[Binned]
    days: int


@router.get("/api/bin", response_model=Bin)
def contents(ctx: Studio, who: Sighted):
    """List the bin's contents: administrators see everything, readers the runs that they made."""
    store = ctx.store()
    rows = bin.contents(store)
    if not ctx.administers(who):
        mine = set(owners.owned(store, "run", who))
        rows = [row for row in rows if row["kind"] == "run" and row["id"] in mine]
    return {"ok": True, "rows": rows, "days": bin.DAYS}


@router.post("/api/bin/run/{run_id}/restore", response_model=Done)
def restore_run(ctx: Studio, who: Annotated[str, owner_of("run", "run_id")], run_id: str):
    """Restore a run from the bin."""
    bin.restore(ctx.store(), "run", run_id, who)
    return {"ok": True}


@router.post("/api/bin/study/{study}/restore", response_model=Done)
def restore_study(ctx: Studio, who: Administrator, study: str):
    """Restore a study from the bin."""
    bin.restore(ctx.store(), "study", study, who)
    return {"ok": True}


class Patient(Body):
    """A patient to erase.

    patient: the identifier at import. case: instead, the number of one of the patient's cases.
    """

    patient: Line = ""
    case: Id | None = None


class Erasure(Patient):
    """A patient whose erasure is confirmed. cases: the number of cases that was shown before."""

    cases: Id


class RunThatLearnt(Part):
    id: str
    name: str
    study: str


class Traced(Part):
    """A patient's data in a home, as core/studio/review/erasing.py describes it."""

    backups: int
    cases: int
    comments: int
    files: list[str]
    findings: int
    left: int
    made: list[str]
    maps: list[str]
    masks: int
    outside: list[str]
    prepared: list[str]
    readings: int
    reviews: int
    runs: list[RunThatLearnt]
    studies: list[str]


class Named(Answer):
    """A patient's data in a home. lines: the description in words."""

    trace: Traced
    lines: list[str]


class Erased(Answer):
    """What was erased.

    open: steps that failed and will be retried. still: files of the home that still name the patient, or one of the
    patient's files.
    """

    trace: Traced
    open: list[str]
    still: list[str]


@router.post("/api/erase/find", response_model=Named)
def find(ctx: Studio, who: Administrator, body: Patient):
    """Describe the data stored on a patient; nothing changes."""
    traced = erasing.trace(ctx.store(), erasing.cases_of(ctx.store(), body.patient, body.case), body.patient)
    return {"ok": True, "trace": traced.to_dict(), "lines": erasing.words(traced)}


@router.post("/api/erase", response_model=Erased)
def erase(ctx: Studio, who: Administrator, body: Erasure):
    """Erase a patient permanently, if `cases` is still the number of the patient's cases."""
    cases = erasing.cases_of(ctx.store(), body.patient, body.case)
    if len(cases) != body.cases:
        raise ValueError(f"There are {len(cases)} cases now, not {body.cases}: look again.")
    return {"ok": True, **erasing.erase(ctx.store(), cases, who, body.patient)}

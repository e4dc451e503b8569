"""Routes for removing data: the bin, which keeps removed runs and studies for a week, and erasure of patients."""

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
    """Run or study in the bin. `binned` is the time of its removal, `until` the time of its deletion."""

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
    """Lists the contents of the bin. Administrators see everything, other readers only runs that they created."""
    store = ctx.store()
    rows = bin.contents(store)
    if not ctx.administers(who):
        mine = set(owners.owned(store, "run", who))
        rows = [row for row in rows if row["kind"] == "run" and row["id"] in mine]
    return {"ok": True, "rows": rows, "days": bin.DAYS}


@router.post("/api/bin/run/{run_id}/restore", response_model=Done)
def restore_run(ctx: Studio, who: Annotated[str, owner_of("run", "run_id")], run_id: str):
    """Restores a run from the bin."""
    bin.restore(ctx.store(), "run", run_id, who)
    return {"ok": True}


@router.post("/api/bin/study/{study}/restore", response_model=Done)
def restore_study(ctx: Studio, who: Administrator, study: str):
    """Restores a study from the bin."""
    bin.restore(ctx.store(), "study", study, who)
    return {"ok": True}


class Patient(Body):
    """Patient to erase, given by the identifier at import (`patient`) or by the number of one of their cases."""

    patient: Line = ""
    case: Id | None = None


class Erasure(Patient):
    """Confirmed request to erase a patient. `cases` is the number of the patient's cases that was shown to the user."""

    cases: Id


class RunThatLearnt(Part):
    id: str
    name: str
    study: str


class PatientData(Part):
    """Data of a patient in a home; `Trace` in core/studio/review/erasing.py describes the fields."""

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
    """Data of a patient in a home. `lines` describes the data in sentences."""

    trace: PatientData
    lines: list[str]


class Erased(Answer):
    """Result of erasing a patient.

    open: Steps that failed and will be repeated.
    still: Files of the home that still contain the patient's identifier or the name of one of the patient's files.
    """

    trace: PatientData
    open: list[str]
    still: list[str]


@router.post("/api/erase/find", response_model=Named)
def find(ctx: Studio, who: Administrator, body: Patient):
    """Describes the data stored on a patient, without changing them."""
    traced = erasing.trace(ctx.store(), erasing.cases_of(ctx.store(), body.patient, body.case), body.patient)
    return {"ok": True, "trace": traced.to_dict(), "lines": erasing.words(traced)}


@router.post("/api/erase", response_model=Erased)
def erase(ctx: Studio, who: Administrator, body: Erasure):
    """Erases a patient permanently, unless `cases` differs from the current number of the patient's cases."""
    cases = erasing.cases_of(ctx.store(), body.patient, body.case)
    if len(cases) != body.cases:
        raise ValueError(f"The patient has {len(cases)} cases now, not {body.cases}. Check the list again.")
    return {"ok": True, **erasing.erase(ctx.store(), cases, who, body.patient)}

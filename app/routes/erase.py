"""Erases a patient, for administrators: first describes the stored data, then deletes them."""

from __future__ import annotations

from fastapi import APIRouter

from app.access.permissions import Administrator, Studio
from app.routes._types import Answer, Body, Id, Line, Part
from core.studio.review import erasing

router = APIRouter(prefix="/api/erase", tags=["erase"])


class Patient(Body):
    """A patient to erase.

    patient: the identifier at import. case: instead, the number of one of the patient's cases.
    """

    patient: Line = ""
    case: Id | None = None


class Erasure(Patient):
    """A patient whose erasure is confirmed. cases: the number that was shown before."""

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


@router.post("/find", response_model=Named)
def find(ctx: Studio, who: Administrator, body: Patient):
    """Describe the data stored on a patient; nothing changes."""
    traced = erasing.trace(ctx.store(), erasing.cases_of(ctx.store(), body.patient, body.case), body.patient)
    return {"ok": True, "trace": traced.to_dict(), "lines": erasing.words(traced)}


@router.post("", response_model=Erased)
def erase(ctx: Studio, who: Administrator, body: Erasure):
    """Erase a patient, if the number of cases shown before is still right."""
    cases = erasing.cases_of(ctx.store(), body.patient, body.case)
    if len(cases) != body.cases:
        raise ValueError(f"There are {len(cases)} cases now, not {body.cases}: look again.")
    return {"ok": True, **erasing.erase(ctx.store(), cases, who, body.patient)}

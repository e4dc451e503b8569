"""Erasing a patient: first what there is, in words, then the erasure of exactly that. Administrators."""

from __future__ import annotations

from fastapi import APIRouter

from app.access.permissions import Administrator, Studio
from app.routes._types import Answer, Body, Id, Line, Part
from core.studio.review import erasing

router = APIRouter(prefix="/api/erase", tags=["erase"])


class Patient(Body):
    """A patient to erase.

    patient: as the import knew it. case: the number of a case of the patient, instead.
    """

    patient: Line = ""
    case: Id | None = None


class Erasure(Patient):
    """A patient whose erasure is confirmed. cases: how many were named before."""

    cases: Id


class RunThatLearnt(Part):
    id: str
    name: str
    study: str


class Traced(Part):
    """What a home holds of a patient, as core/studio/review/erasing.py has it."""

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
    """What a home holds of a patient. lines: the trace in words."""

    trace: Traced
    lines: list[str]


class Erased(Answer):
    """What was erased.

    open: what could not be done yet and is tried again. still: files of the home that still name the patient, or a file
    of theirs.
    """

    trace: Traced
    open: list[str]
    still: list[str]


@router.post("/find", response_model=Named)
def find(ctx: Studio, who: Administrator, body: Patient):
    """Name what there is of a patient; nothing changes."""
    traced = erasing.trace(ctx.store(), erasing.cases_of(ctx.store(), body.patient, body.case), body.patient)
    return {"ok": True, "trace": traced.to_dict(), "lines": erasing.words(traced)}


@router.post("", response_model=Erased)
def erase(ctx: Studio, who: Administrator, body: Erasure):
    """Erase a patient of whom so many cases were named."""
    cases = erasing.cases_of(ctx.store(), body.patient, body.case)
    if len(cases) != body.cases:
        raise ValueError(f"There are {len(cases)} cases now, not {body.cases}: look again.")
    return {"ok": True, **erasing.erase(ctx.store(), cases, who, body.patient)}

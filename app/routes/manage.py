"""An administrator's settings of a study: the watched folder, the assignment of cases, the labels of findings."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Interval
from fastapi import APIRouter
from pydantic import Field

from app.access.permissions import Administrator, Reader, Studio
from app.routes._shared import JobStatus, NamedRun, Rights
from app.routes._types import Answer, Body, Line, Name, Part
from app.routes.studies import Labels
from core.studio.incoming import watch
from core.studio.review import decisions, people
from core.studio.runs.records import list_runs

router = APIRouter(prefix="/api/manage", tags=["manage"])


class WatchSettings(Body):
    """Settings of a study's watched folder. run: "" for the run that Review opens with."""

    folder: Line
    run: Name | None = ""
    active: bool = True
    copies: bool = Field(False, alias="copy")


class NewLabels(Body):
    labels: Annotated[list[Name], Field(max_length=200)]


class Assign(Body):
    """Readers to assign the test cases to. per_case: readers for each case, 2 for double reading."""

    readers: Annotated[list[Name], Field(max_length=1000)]
    per_case: Annotated[int, Interval(ge=1, le=1000)] = 1


class Unassign(Body):
    reader: Name


class OwnRights(Answer, Rights):
    """The rights of the current reader."""


class ImportJob(Part):
    id: int
    status: JobStatus
    message: str


class LeftOut(Part):
    name: str
    note: str


class Watch(Part):
    """A study's watched folder.

    counts: incoming files by state. changed: when a case or a score was last added. job: null while idle.
    """

    study: str
    folder: str
    run: str | None
    active: bool
    copy: bool  # type: ignore[misc]  # dict has a method of this name
    looked: str | None
    message: str
    changed: str | None
    counts: dict[Literal["waiting", "ready", "taken", "double", "failed"], int]
    job: ImportJob | None
    left_out: list[LeftOut]


class Watched(Answer):
    watch: Watch | None


class AssignedReader(Part):
    """A reader's progress with the assigned cases.

    role: null without an account. read: number of assigned cases that are read; read_in_all: of all cases of the study.
    """

    name: str
    role: str | None
    assigned: int
    read: int
    read_in_all: int


class Assignments(Answer):
    """The assignment of test cases. cases: number of test cases; free: how many of these are assigned to nobody."""

    readers: list[AssignedReader]
    cases: int
    free: int


class Unassigned(Assignments):
    taken_back: int


class FittedRun(NamedRun):
    created: str


class Managed(Assignments):
    watch: Watch | None
    runs: list[FittedRun]
    labels: list[str]


@router.get("", response_model=OwnRights)
def rights(ctx: Studio, who: Reader):
    """Return the reader's rights, which decide whether the page shows these forms."""
    return {"ok": True, **people.rights(ctx.store(), who, ctx.single_user)}


@router.get("/{study}", response_model=Managed)
def everything(ctx: Studio, who: Administrator, study: str):
    """Return an administrator's settings of a study."""
    store = ctx.store()
    fits = [r for r in list_runs(store, study, kind="fit") if r["status"] == "done"]
    return {
        "ok": True,
        "watch": watch.get_watch(store, study),
        "runs": [{k: r[k] for k in ("id", "name", "method", "created")} for r in reversed(fits)],
        "labels": decisions.finding_labels(store, study),
        **people.dealt(store, study),
    }


@router.post("/{study}/watch", response_model=Watched)
def set_watch(ctx: Studio, who: Administrator, study: str, body: WatchSettings):
    """Set the study's watched folder, or stop watching it if `active` is false."""
    ctx.demand_root(body.folder)
    settings = watch.set_watch(ctx.store(), study, body.folder, who, body.run or None, body.active, body.copies)
    return {"ok": True, "watch": settings}


@router.post("/{study}/labels", response_model=Labels)
def set_labels(ctx: Studio, who: Administrator, study: str, body: NewLabels):
    """Set the labels that findings of the study can have."""
    return {"ok": True, "labels": decisions.set_labels(ctx.store(), study, body.labels, who)}


@router.post("/{study}/assign", response_model=Assignments)
def assign(ctx: Studio, who: Administrator, study: str, body: Assign):
    """Assign the study's test cases to readers."""
    store = ctx.store()
    unknown = sorted(set(body.readers) - set(people.known_readers(store, study)))
    if unknown:
        raise ValueError(f"unknown reader {unknown[0]!r}; `reader add` makes an account")
    people.assign(store, study, body.readers, who, per_case=body.per_case)
    return {"ok": True, **people.dealt(store, study)}


@router.post("/{study}/unassign", response_model=Unassigned)
def unassign(ctx: Studio, who: Administrator, study: str, body: Unassign):
    """Withdraw the assigned cases that `reader` has not read yet."""
    store = ctx.store()
    gone = people.unassign(store, study, body.reader, who)
    return {"ok": True, "taken_back": gone, **people.dealt(store, study)}

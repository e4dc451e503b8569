"""Routes for the settings of a study that administrators change: watched folder, case assignment, finding labels."""

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
    """Settings of a study's watched folder. An empty `run` stands for the run with which Review opens."""

    folder: Line
    run: Name | None = ""
    active: bool = True
    copies: bool = Field(False, alias="copy")


class NewLabels(Body):
    labels: Annotated[list[Name], Field(max_length=200)]


class Assign(Body):
    """Request to assign the test cases to readers. `per_case` is the number of readers per case (2: double reading)."""

    readers: Annotated[list[Name], Field(max_length=1000)]
    per_case: Annotated[int, Interval(ge=1, le=1000)] = 1


class Unassign(Body):
    reader: Name


class OwnRights(Answer, Rights):
    """Rights of the current reader."""


class ImportJob(Part):
    id: int
    status: JobStatus
    message: str


class LeftOut(Part):
    name: str
    note: str


class Watch(Part):
    """Watched folder of a study.

    looked: Time of the last check of the folder, or null.
    changed: Time at which a case or a score was last added, or null.
    counts: Number of incoming files by state.
    job: Import that is queued or running, or null.
    left_out: Files that failed to import, with the reason.
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
    """Progress of a reader.

    role: Role of the reader's account, or null if the reader has no account.
    read: Number of the assigned cases that the reader has read.
    read_in_all: Number of cases of the study that the reader has read, assigned or not.
    """

    name: str
    role: str | None
    assigned: int
    read: int
    read_in_all: int


class Assignments(Answer):
    """Assignment of test cases. `cases` is the number of test cases, `free` the number of unassigned ones."""

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
    """Returns the reader's rights, which decide whether the page shows these settings."""
    return {"ok": True, **people.rights(ctx.store(), who, ctx.single_user)}


@router.get("/{study}", response_model=Managed)
def everything(ctx: Studio, who: Administrator, study: str):
    """Returns the settings of a study that administrators change, with the assignment of its cases."""
    store = ctx.store()
    fits = [r for r in list_runs(store, study, kind="fit") if r["status"] == "done"]
    return {
        "ok": True,
        "watch": watch.get_watch(store, study),
        "runs": [{k: r[k] for k in ("id", "name", "method", "created")} for r in reversed(fits)],
        "labels": decisions.finding_labels(store, study),
        **people.assignment_counts(store, study),
    }


@router.post("/{study}/watch", response_model=Watched)
def set_watch(ctx: Studio, who: Administrator, study: str, body: WatchSettings):
    """Sets the study's watched folder. If `active` is false, the folder is no longer watched."""
    ctx.demand_root(body.folder)
    settings = watch.set_watch(ctx.store(), study, body.folder, who, body.run or None, body.active, body.copies)
    return {"ok": True, "watch": settings}


@router.post("/{study}/labels", response_model=Labels)
def set_labels(ctx: Studio, who: Administrator, study: str, body: NewLabels):
    """Sets the labels that findings of the study can have."""
    return {"ok": True, "labels": decisions.set_labels(ctx.store(), study, body.labels, who)}


@router.post("/{study}/assign", response_model=Assignments)
def assign(ctx: Studio, who: Administrator, study: str, body: Assign):
    """Assigns the study's test cases to readers."""
    store = ctx.store()
    unknown = sorted(set(body.readers) - set(people.known_readers(store, study)))
    if unknown:
        raise ValueError(f"Unknown reader {unknown[0]!r}; create an account with `reader add`.")
    people.assign(store, study, body.readers, who, per_case=body.per_case)
    return {"ok": True, **people.assignment_counts(store, study)}


@router.post("/{study}/unassign", response_model=Unassigned)
def unassign(ctx: Studio, who: Administrator, study: str, body: Unassign):
    """Ends the assignment of those cases that the reader has not read yet."""
    store = ctx.store()
    gone = people.unassign(store, study, body.reader, who)
    return {"ok": True, "taken_back": gone, **people.assignment_counts(store, study)}

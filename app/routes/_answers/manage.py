"""What administrators set for a study: the watched folder, who reads which case, the labels of findings."""

from __future__ import annotations

from typing import Any, Literal

from app.routes._answers.shared import Answer, JobStatus, Rights
from app.routes._answers.studies import Labels


class ImportJob(Answer):
    id: int
    status: JobStatus
    message: str


class LeftOut(Answer):
    name: str
    note: str


class Watch(Answer):
    """counts: incoming files by state. changed: when a case or a reading was last added. job: null while idle."""

    study: str
    folder: str
    run: str | None
    active: bool
    copy: bool  # type: ignore[misc]  # a method of dict has this name
    looked: str | None
    message: str
    changed: str | None
    counts: dict[Literal["waiting", "ready", "taken", "double", "failed"], int]
    job: ImportJob | None
    left_out: list[LeftOut]


class Watched(Answer):
    watch: Watch | None


class AssignedReader(Answer):
    """role: null without an account. read: of those assigned; read_in_all: cases of the study, assigned or not."""

    name: str
    role: str | None
    assigned: int
    read: int
    read_in_all: int


class Assignments(Answer):
    """cases: of the test part; free: of these, assigned to nobody."""

    readers: list[AssignedReader]
    cases: int
    free: int


class Unassigned(Assignments):
    taken_back: int


class FittedRun(Answer):
    id: str
    name: str
    method: str
    created: str


class Managed(Assignments):
    watch: Watch | None
    runs: list[FittedRun]
    labels: list[str]


ANSWERS: dict[str, Any] = {
    "GET /api/manage": Rights,
    "GET /api/manage/{study}": Managed,
    "GET /api/manage/{study}/watch": Watched,
    "POST /api/manage/{study}/watch": Watched,
    "POST /api/manage/{study}/labels": Labels,
    "POST /api/manage/{study}/assign": Assignments,
    "POST /api/manage/{study}/unassign": Unassigned,
}
BINARY: dict[str, tuple[str, ...]] = {}

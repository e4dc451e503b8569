"""The bin, what leaves the studio and comes back, and the audit trail."""

from __future__ import annotations

from typing import Any, Literal

from app.routes._answers.shared import Answer, Done


class Binned(Answer):
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


class Missing(Answer):
    images: list[str]
    maps: list[str]


class Bundle(Answer):
    """rows: how many, by table. readers: new names by those of the bundle. missing, changed: names of cases."""

    study: str
    rows: dict[str, int]
    readers: dict[str, str]
    missing: Missing
    changed: list[str]


class ExportWarning(Answer):
    """text: null where there is nothing to warn of. cases: with likely burned-in text."""

    text: str | None
    cases: list[int]


class Event(Answer):
    id: int
    at: str
    who: str
    kind: str
    study: str | None
    case_id: int | None
    case: str | None
    before: Any
    after: Any
    seconds: float | None


class Trail(Answer):
    """next: the `before` of the following page. kinds, people, studies: what the trail can be filtered by."""

    events: list[Event]
    next: int | None
    kinds: list[str]
    people: list[str]
    studies: list[str]


ANSWERS: dict[str, Any] = {
    "GET /api/audit": Trail,
    "GET /api/bin": Bin,
    "POST /api/bin/run/{run_id}/restore": Done,
    "POST /api/bin/study/{study}/restore": Done,
    "GET /api/export/{study}/warning": ExportWarning,
    "POST /api/export/bundle": Bundle,
}
BINARY = {
    "POST /api/export/{study}/{kind}": ("application/zip", "text/csv", "application/json"),
}

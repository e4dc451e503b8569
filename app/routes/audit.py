"""Route of the audit trail, for administrators: who did what to which case and when."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from app.access.permissions import Overseer, Studio
from app.routes._types import Answer, Part
from core.studio.db import audit

router = APIRouter(prefix="/api/audit", tags=["audit"])
PAGE = 50
Day = Annotated[str, Query(pattern=r"^(\d{4}-\d{2}-\d{2})?$")]
SHOWN = ("id", "at", "who", "kind", "study", "case_id", "case", "before", "after", "seconds")


class Event(Part):
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
    """Page of the audit trail.

    next: Value of `before` that requests the following page, or null on the last page.
    kinds, people, studies: Values by which the trail can be filtered.
    """

    events: list[Event]
    next: int | None
    kinds: list[str]
    people: list[str]
    studies: list[str]


@router.get("", response_model=Trail)
def trail(
    ctx: Studio,
    reader: Overseer,
    study: str = "",
    who: str = "",
    kind: str = "",
    since: Day = "",
    until: Day = "",
    before: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = PAGE,
):
    """Returns events of the audit trail, newest first. An empty filter matches all events."""
    store = ctx.store()
    events = audit.trail(
        store, study or None, limit=limit + 1, who=who or None, kind=kind or None, since=since or None,
        until=until or None, before=before or None,
    )  # fmt: skip
    page = [{name: event[name] for name in SHOWN} for event in events[:limit]]
    next_before = page[-1]["id"] if len(events) > limit else None
    return {"ok": True, "events": page, "next": next_before, **audit.values(store)}

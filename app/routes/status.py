"""What the page's bar shows: which studies there are, what is at work, and where new cases came in; what is planned."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter

from app.access.permissions import Administrator, Reader, Studio
from app.routes._shared import Job, StatusOfJob
from app.routes._types import Answer, Id, Line, Part
from core.studio.incoming import watch
from core.studio.jobs import queue as jobs
from core.studio.review import sessions
from core.studio.training import live, plan

router = APIRouter(prefix="/api/status", tags=["status"])


class OpenSession(Part):
    id: int
    study: str


class Standing(Part):
    """blind: studies that are read blind now. session: the open reading session."""

    blind: list[str]
    session: OpenSession | None


class Status(Answer):
    """beside: the short job at work while a training is `job`. arrived: when something last came in, by study."""

    studies: list[str]
    job: Job | None
    beside: Job | None
    waiting: int
    arrived: dict[str, str]
    reading: Standing


class Stage(Part):
    """left: seconds."""

    title: str
    state: Literal["done", "running", "waiting", "failed", "stopped"]
    left: float
    share: float


class Plan(Answer):
    """left: seconds until all of it is done."""

    stages: list[Stage]
    left: float
    jobs: list[int]
    scored: bool


@router.get("", response_model=Status)
def status(ctx: Studio, who: Reader):
    """Lists the studies, what is at work, and where new cases came in."""
    store = ctx.store()
    reading, going = sessions.standing(store, who), live.now(store)
    if reading["blind"]:
        going |= {which: live.quiet(going[which]) for which in ("job", "beside")}
    return {"ok": True, **going, "arrived": watch.changes(store), "reading": reading}


@router.get("/plan", response_model=Plan)
def planned(ctx: Studio, who: Reader, study: Line = ""):
    """Lists what jobs make for a study, stage by stage, and how long it still takes."""
    return {"ok": True, **plan.plan(ctx.store(), study or None)}


@router.post("/stop/{job}", response_model=StatusOfJob)
def stop(ctx: Studio, who: Administrator, job: Id):
    """Stop a job for good, with the steps that were to follow; what it has made stays."""
    return {"ok": True, "status": jobs.cancel(ctx.store(), job)}

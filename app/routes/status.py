"""Routes of the page's bar: which studies there are, what is at work, where new cases came in, what is planned."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Literal

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter

from app.access.permissions import IN_SESSION, NOT_SIGHTED, Administrator, Reader, Studio, closed
from app.context import Context
from app.routes._changes import Changes, stream
from app.routes._shared import Job, StatusOfJob
from app.routes._types import Answer, Id, Line, Part, binary
from core.studio.db import limits
from core.studio.incoming import watch
from core.studio.jobs import queue as jobs
from core.studio.review import masks, sessions
from core.studio.runs import readings
from core.studio.training import live, plan

router = APIRouter(prefix="/api/status", tags=["status"])


class OpenSession(Part):
    id: int
    study: str


class Standing(Part):
    """What whoever asks reads. blind: studies that are read blind now. session: the open reading session.

    closed: paths that are refused until then, as regular expressions. why: the sentence that says so.
    """

    blind: list[str]
    session: OpenSession | None
    closed: list[str]
    why: str


class Status(Answer):
    """What the page's bar shows.

    beside: the short job at work while a training is `job`. arrived: when something last came in or was scored, by
    watched study; to whoever reads any study blind, when a case came in.

    ended: when a job last ended. runs, drafts: marks by study, other ones when a run of it came, changed or went or a
    score was stored, and when a drawing of the reader's own was kept or given up. Whoever reads any study blind has
    none of the last three, so that nothing that is hidden is counted or timed by them.
    """

    studies: list[str]
    job: Job | None
    beside: Job | None
    waiting: int
    arrived: dict[str, str]
    ended: str | None
    runs: dict[str, str]
    drafts: dict[str, str]
    reading: Standing


class Stage(Part):
    """A stage of what jobs make for a study. left: seconds."""

    title: str
    state: Literal["done", "running", "waiting", "failed", "stopped"]
    left: float
    share: float


class Plan(Answer):
    """What jobs make for a study, stage by stage. left: seconds until all of it is done."""

    stages: list[Stage]
    left: float
    jobs: list[int]
    scored: bool


@router.get("", response_model=Status)
def status(ctx: Studio, who: Reader):
    """Lists the studies, what is at work, and where new cases came in."""
    return _standing(ctx, who)


@functools.cache
def _closed(in_session: bool) -> list[str]:
    from app.routes import every_route  # which imports this module

    return closed(every_route(), in_session)


def _standing(ctx: Context, who: str) -> dict:
    store = ctx.store()
    reading, going = sessions.standing(store, who), live.now(store)
    reading |= {"closed": [], "why": ""}
    if sessions.in_blind_session(store, who):
        reading |= {"closed": _closed(True), "why": IN_SESSION}
    elif not ctx.single_user and sessions.reads_blind(store, who):
        reading |= {"closed": _closed(False), "why": NOT_SIGHTED}
    if reading["blind"]:
        going |= {which: live.quiet(going[which]) for which in ("job", "beside")}
        marks: dict = {"ended": None, "runs": {}, "drafts": {}, "arrived": watch.arrivals(store)}
    else:
        marks = {"runs": readings.marks(store), "drafts": masks.draft_marks(store, who)}
        marks["arrived"] = watch.changes(store)
    return {"ok": True, **going, **marks, "reading": reading}


_STATUS: TypeAdapter[Status] = TypeAdapter(Status)


async def following(ctx: Studio, who: Reader) -> AsyncIterator[None]:
    """Counts the reader's stream from before its answer begins until its connection has ended."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(ctx.held(Changes, ctx.store()).counted(who))
        except limits.TooMuch as error:
            raise HTTPException(429, str(error)) from None
        yield


@router.get("/events", dependencies=[Depends(following)], **binary("text/event-stream"))
async def events(ctx: Studio, who: Reader, request: Request):
    """Stream the status whenever it changes, as server-sent events; it ends when the reader has signed out."""

    def say() -> str | None:
        signed_in = ctx.signed_in(request) == who
        return _STATUS.dump_json(_STATUS.validate_python(_standing(ctx, who))).decode() if signed_in else None

    text = stream(ctx.held(Changes, ctx.store()), say)
    return StreamingResponse(text, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@router.get("/plan", response_model=Plan)
def planned(ctx: Studio, who: Reader, study: Line = ""):
    """Lists what jobs make for a study, stage by stage, and how long it still takes."""
    return {"ok": True, **plan.plan(ctx.store(), study or None)}


@router.post("/stop/{job}", response_model=StatusOfJob)
def stop(ctx: Studio, who: Administrator, job: Id):
    """Stop a job for good, with the steps that were to follow; what it has made stays."""
    return {"ok": True, "status": jobs.cancel(ctx.store(), job)}

"""Routes of the page's status bar: studies, running jobs, new cases, and planned work."""

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
from core.studio.ingest.studies import study_row
from core.studio.jobs import queue as jobs
from core.studio.review import masks, sessions
from core.studio.runs import readings
from core.studio.training import live, plan

router = APIRouter(prefix="/api/status", tags=["status"])


class OpenSession(Part):
    id: int
    study: str


class Standing(Part):
    """Restrictions of the current reader because of blind reading.

    blind: Ids of the studies that the reader now reads blind.
    session: Open reading session, or null.
    closed: Regular expressions for the paths that are now closed to the reader.
    why: Reason why they are closed, or "".
    """

    blind: list[str]
    session: OpenSession | None
    closed: list[str]
    why: str


class Status(Answer):
    """Status that the page's bar shows. For blind readers, `ended`, `runs` and `drafts` are empty to reveal no results.

    job: Job that is running, or the next one.
    beside: Short job that runs at the same time as `job`, or null.
    arrived: For each watched study, time at which a case or score was last added (for blind readers, only a case).
    ended: Time at which a job last ended, or null.
    runs: For each study, a string that changes whenever the study's runs or scores change.
    drafts: For each study, a string that changes whenever the reader's unsaved drawings change.
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
    """Stage of a study's jobs. `left` is the estimated remaining time in seconds, `share` the fraction that is done."""

    title: str
    state: Literal["done", "running", "waiting", "failed", "stopped"]
    left: float
    share: float


class Plan(Answer):
    """Jobs of a study by stage. `left` is in seconds. `scored` tells whether a run has scored all test cases."""

    stages: list[Stage]
    left: float
    jobs: list[int]
    scored: bool


@router.get("", response_model=Status)
def status(ctx: Studio, who: Reader):
    """Returns the studies, the running jobs and the times of new cases."""
    return _standing(ctx, who)


@functools.cache
def _closed(in_session: bool) -> list[str]:
    from app.routes import every_route  # here, because app.routes imports this module

    return closed(every_route(), in_session)


def _standing(ctx: Context, who: str) -> dict:
    store = ctx.store()
    reading, going = sessions.session_status(store, who), live.live_status(store)
    reading |= {"closed": [], "why": ""}
    if sessions.in_blind_session(store, who):
        reading |= {"closed": _closed(True), "why": IN_SESSION}
    elif not ctx.single_user and sessions.reads_blind(store, who):
        reading |= {"closed": _closed(False), "why": NOT_SIGHTED}
    if reading["blind"]:
        going |= {which: live.quiet(going[which]) for which in ("job", "beside")}
        marks: dict = {"ended": None, "runs": {}, "drafts": {}, "arrived": watch.arrivals(store)}
    else:
        marks = {"runs": readings.change_stamps(store), "drafts": masks.draft_marks(store, who)}
        marks["arrived"] = watch.changes(store)
    return {"ok": True, **going, **marks, "reading": reading}


_STATUS: TypeAdapter[Status] = TypeAdapter(Status)


async def following(ctx: Studio, who: Reader) -> AsyncIterator[None]:
    """Counts a reader's event stream until it closes. Raises HTTPException (429) if the reader has too many streams."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(ctx.held(Changes, ctx.store()).counted(who))
        except limits.TooMuch as error:
            raise HTTPException(429, str(error)) from None
        yield


@router.get("/events", dependencies=[Depends(following)], **binary("text/event-stream"))
async def events(ctx: Studio, who: Reader, request: Request):
    """Streams the status as server-sent events whenever it changes, until the reader signs out."""

    def say() -> str | None:
        signed_in = ctx.signed_in(request) == who
        return _STATUS.dump_json(_STATUS.validate_python(_standing(ctx, who))).decode() if signed_in else None

    text = stream(ctx.held(Changes, ctx.store()), say)
    return StreamingResponse(text, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@router.get("/plan", response_model=Plan)
def planned(ctx: Studio, who: Reader, study: Line = ""):
    """Returns the jobs of a study, stage by stage, and the estimated time left; nothing if no study is given."""
    if study:
        study_row(ctx.store(), study)
    return {"ok": True, **plan.plan(ctx.store(), study or None)}


@router.post("/stop/{job}", response_model=StatusOfJob)
def stop(ctx: Studio, who: Administrator, job: Id):
    """Stops a job and its remaining steps permanently. Finished results are kept."""
    return {"ok": True, "status": jobs.cancel(ctx.store(), job)}

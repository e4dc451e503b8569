"""Reading sessions: start one, end it, read its summary, print it. The worklist of an open one is in reviews.py."""

from __future__ import annotations

import secrets
from typing import Annotated

from annotated_types import Interval
from fastapi import APIRouter, Request
from pydantic import Field

from app.access.permissions import Administrator, Reader, Studio
from app.context import Context
from app.routes._shared import Confusion, Decision, Kappa, ScoredRun, Share
from app.routes._types import Answer, Body, Id, Name, Part
from core.studio.jobs import queue
from core.studio.review import cases, people, planted, session_report
from core.studio.review.sessions import end_session, ended_sessions, start_session
from core.studio.runs.records import version

router = APIRouter(prefix="/api/reading", tags=["reading"])


class ReadingSession(Body):
    """A reading session to start. choice: of core/studio/review/session_report.py. count: 0 for all of them."""

    study: Name
    choice: Name = "all"
    count: Annotated[int, Interval(ge=0, le=1_000_000)] = 0
    blind: bool = True
    neutral: bool = True
    shuffled: bool = True


class PlantedSwitch(Body):
    """Whether planted lesions are mixed into a study's sessions.

    per_hundred: cases with a planted lesion beside a hundred others; 0 for none.
    """

    study: Name
    per_hundred: Annotated[int, Interval(ge=0, le=planted.HIGHEST)]
    seed: Annotated[int, Interval(ge=0, le=2**31 - 1)] = 0


class PlantedAgreement(Body):
    study: Name
    agreed: bool


class PlantedState(Answer):
    """Planted lesions of a study.

    ready: how many are planted. agreed: when the reader agreed to them, null: not. seed: for administrators alone. job:
    that plants them now.
    """

    per_hundred: int
    ready: int
    agreed: str | None
    seed: int | None
    job: int | None


class SessionChoice(Part):
    name: str
    title: str
    cases: int


class EndedSession(Part):
    """A reading session that has ended. blind, neutral, shuffled: 0 or 1."""

    id: int
    blind: int
    neutral: int
    shuffled: int
    choice: str
    created: str
    ended: str
    reader: str


class ListedSession(EndedSession):
    cases: int


class Sessions(Answer):
    """What a session could hold, and the sessions that are over. planted: as they would be mixed in."""

    planted: PlantedState
    choices: list[SessionChoice]
    over: list[ListedSession]
    blind: bool


class StartedSession(Answer):
    session: int
    cases: int


class SessionNumber(Answer):
    session: int


class Times(Part):
    """Seconds a case: the median, the quartiles, and the sum."""

    median: float
    low: float
    high: float
    total: float


class ByDecision(Part):
    normal: int
    abnormal: int
    unsure: int


class SessionAgreement(Kappa):
    with_: Annotated[str, Field(alias="with")]
    agreement: float | None


class RevealedLesion(Part):
    """A lesion that was planted in a session's case, and what the reader said of it.

    size: of the lesion's longer side, in parts of the image's. contrast: its opacity. box: x, y, width and height in
    pixels. first, decision: the reader's first and last word, null where the image was not read.
    """

    name: str
    size: float
    contrast: float
    box: tuple[int, int, int, int]
    first: Decision | None
    decision: Decision | None
    found: bool | None
    percentile: float | None
    flagged: bool


class LesionsFound(Part):
    """How many of the planted lesions of a size and contrast were found.

    Of lesions that were read: the shares that the reader called abnormal at first and at last, and that the machine
    flags at its operating point.
    """

    size: float
    contrast: float
    images: int
    first: Share
    last: Share
    machine: Share


class RevealedLesions(Part):
    lesions: list[RevealedLesion]
    table: list[LesionsFound]


class SessionSummary(Answer):
    """What came of a reading session.

    point, detector: against the labels, by the reader's last decisions and by the run's flags. planted: what was
    planted among the cases, which has no part in the figures.
    """

    planted: RevealedLesions

    session: EndedSession
    cases: int
    read: int
    seconds: Times | None
    decisions: ByDecision
    changed: int
    point: Confusion | None
    detector: Confusion | None
    agreement: list[SessionAgreement]


class SheetRow(Part):
    """A case of a printed session.

    first, decision: the first and the last word. percentile, flagged: of the session's run.
    """

    name: str
    first: Decision | None
    decision: Decision | None
    seconds: float | None
    percentile: float | None
    flagged: bool | None


class SessionReport(SessionSummary):
    """A reading session as it is printed.

    which: of which cases, in words. code: the commit that the run was made with. version: of the studio.
    """

    study: str
    reader: str
    which: str
    run: ScoredRun | None
    code: str | None
    version: str
    rows: list[SheetRow]


def default_run(ctx: Context, study: str) -> str | None:
    """Returns the run that Review opens a study with, or None."""
    runs = cases.scored_runs(ctx.store(), study)
    return runs[0]["id"] if runs else None


def asked(ctx: Context, request: Request, name: str, number: int) -> tuple[dict, bool]:
    """Returns the session, and whether its study goes on being read blind: then nothing of labels may be said."""
    store = ctx.store()
    row = session_report.readable(store, number, name, people.rights(store, name, ctx.single_user)["administer"])
    with ctx.reading(request, study=row["study"]) as context:
        return row, context.blinded


def about(row: dict) -> dict:
    """Describes a session that has ended."""
    return {k: row[k] for k in ("id", "blind", "neutral", "shuffled", "choice", "created", "ended", "reader")}


@router.get("", response_model=Sessions)
def sessions(ctx: Studio, who: Reader, request: Request, study: Name):
    """Lists what a session could hold, and the sessions that are over: the reader's, for administrators everyone's."""
    with ctx.reading(request, study=study, run=default_run(ctx, study)) as context:
        everyone = context.rights["administer"]
        return {
            "ok": True,
            "choices": session_report.available(context),
            "over": ended_sessions(context.store, study, None if everyone else context.reader),
            "blind": context.blinded,
            "planted": state(context.store, study, context.reader, everyone),
        }


def state(store, study: str, reader: str, administers: bool, job: int | None = None) -> dict:
    """Describes a study's planted lesions, as `PlantedState` has them."""
    on = planted.switched(store, study) or {"per_hundred": 0, "seed": 0}
    seed = on["seed"] if administers else None
    agreed = planted.agreements(store, study).get(reader)
    number = planted.ready(store, study)
    return {"ok": True, "per_hundred": on["per_hundred"], "ready": number, "agreed": agreed, "seed": seed, "job": job}


@router.post("/planted", response_model=PlantedState)
def switch(ctx: Studio, who: Administrator, body: PlantedSwitch):
    """Mix planted lesions into the sessions of readers who agree, or no longer. They are planted by a job."""
    store, job = ctx.store(), None
    with store.write():
        on = planted.switch(store, body.study, body.per_hundred, body.seed, who)
        if on and not planted.ready(store, body.study):
            job = queue.submit(store, [{"step": "plant", "run": on["run"], "args": {"study": body.study}}])
    return state(store, body.study, who, True, job)


@router.post("/agree", response_model=PlantedState)
def agree(ctx: Studio, who: Reader, body: PlantedAgreement):
    """Agree to planted lesions in one's own sessions, or take it back."""
    planted.agree(ctx.store(), body.study, who, body.agreed)
    return state(ctx.store(), body.study, who, False)


@router.post("/start", response_model=StartedSession)
def start(ctx: Studio, who: Reader, request: Request, body: ReadingSession):
    """Start a reading session; the reader's open one ends."""
    run = default_run(ctx, body.study)
    seed = secrets.randbits(63)
    with ctx.store().write():  # refused as a whole: the open session then goes on
        held = end_session(ctx.store(), who)
        with ctx.writing(request, study=body.study, run=run) as context:
            hidden = context.blind or body.blind
            shuffled = body.shuffled or hidden  # the worklist's own order follows the score
            chosen = session_report.chosen(context, body.choice, body.count, shuffled, seed)
            if not chosen and held is not None:
                raise ValueError("There is no case of that kind to read. Your open session goes on.")
            lesions = planted.drawn(context, chosen, body.choice) if hidden else {}
            if lesions:
                chosen = planted.mixed(chosen, lesions, seed + 1)
                run = (planted.switched(context.store, body.study) or {})["run"]
            number = start_session(
                context.store, body.study, context.reader, chosen, blind=hidden, neutral=body.neutral,
                shuffled=shuffled, choice=body.choice, run=run, planted=lesions,
            )  # fmt: skip
    return {"ok": True, "session": number, "cases": len(chosen)}


@router.post("/end", response_model=SessionNumber)
def end(ctx: Studio, who: Reader):
    """End the open reading session."""
    number = end_session(ctx.store(), who)
    if number is None:
        raise ValueError("No reading session is open.")
    return {"ok": True, "session": number}


@router.get("/{session}/summary", response_model=SessionSummary)
def summary(ctx: Studio, who: Reader, request: Request, session: Id):
    """Sums a session up: times, decisions, and figures where they may be known."""
    row, hidden = asked(ctx, request, who, session)
    shown = session_report.visible(ctx.store(), row, hidden)
    return {"ok": True, "session": about(row), "planted": planted.of_session(ctx.store(), session), **shown}


@router.get("/{session}/report", response_model=SessionReport)
def report(ctx: Studio, who: Reader, request: Request, session: Id):
    """Prints a session that has ended: a reader's own, or anyone's for administrators."""
    row, hidden = asked(ctx, request, who, session)
    sheet = session_report.sheet(ctx.store(), row, hidden)
    revealed = planted.of_session(ctx.store(), session)
    return {"ok": True, "session": about(row), "version": version(), "planted": revealed, **sheet}

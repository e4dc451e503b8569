"""Reading sessions: start one, end it, read its summary, print it. The worklist of an open one is in reviews.py."""

from __future__ import annotations

import secrets
from typing import Annotated

from annotated_types import Interval
from fastapi import APIRouter, Request
from pydantic import Field

from app.access.permissions import Reader, Studio
from app.context import Context
from app.routes._shared import Confusion, Decision, Kappa, ScoredRun
from app.routes._types import Answer, Body, Id, Name, Part
from core.studio.review import cases, people, session_report
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
    """What a session could hold, and the sessions that are over."""

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


class SessionSummary(Answer):
    """What came of a reading session.

    point, detector: against the labels, by the reader's last decisions and by the run's flags.
    """

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
        }


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
            number = start_session(
                context.store, body.study, context.reader, chosen, blind=hidden, neutral=body.neutral,
                shuffled=shuffled, choice=body.choice, run=run,
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
    return {"ok": True, "session": about(row), **shown}


@router.get("/{session}/report", response_model=SessionReport)
def report(ctx: Studio, who: Reader, request: Request, session: Id):
    """Prints a session that has ended: a reader's own, or anyone's for administrators."""
    row, hidden = asked(ctx, request, who, session)
    sheet = session_report.sheet(ctx.store(), row, hidden)
    return {"ok": True, "session": about(row), "version": version(), **sheet}

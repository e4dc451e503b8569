"""Reading sessions: start, end, summary and printed report. For an open session's worklist see reviews.py."""

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
from core.studio.review import cases, session_report
from core.studio.review.sessions import end_session, ended_sessions, start_session
from core.studio.runs.records import version

router = APIRouter(prefix="/api/reading", tags=["reading"])


class ReadingSession(Body):
    """A reading session to start. choice: see core/studio/review/session_report.py. count: 0 for all cases."""

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
    """The choices for a new session, and sessions that have ended (over). blind: whether the reader is blind now."""

    choices: list[SessionChoice]
    over: list[ListedSession]
    blind: bool


class StartedSession(Answer):
    session: int
    cases: int


class SessionNumber(Answer):
    session: int


class Times(Part):
    """Seconds per case: the median, the quartiles, and the sum."""

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
    """The results of a reading session.

    point: the reader's last decisions against the labels. detector: the run's flags against the labels.
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

    first, decision: the first and the last decision. percentile, flagged: by the session's run.
    """

    name: str
    first: Decision | None
    decision: Decision | None
    seconds: float | None
    percentile: float | None
    flagged: bool | None


class SessionReport(SessionSummary):
    """A reading session's printed report.

    which: how its cases were chosen. code: the commit of the code that made the run. version: the studio's version.
    """

    study: str
    reader: str
    which: str
    run: ScoredRun | None
    code: str | None
    version: str
    rows: list[SheetRow]


def default_run(ctx: Context, study: str) -> str | None:
    """Returns the run with which Review opens a study, or None."""
    runs = cases.scored_runs(ctx.store(), study)
    return runs[0]["id"] if runs else None


def asked(ctx: Context, request: Request, name: str, number: int) -> tuple[dict, bool]:
    """Returns the session, if the reader may see it, and whether labels stay hidden (the study is still read blind)."""
    store = ctx.store()
    row = session_report.readable(store, number, name, ctx.administers(name))
    with ctx.reading(request, study=row["study"]) as context:
        return row, context.blinded


def about(row: dict) -> dict:
    """Returns the fields of a session's row that an EndedSession has."""
    return {k: row[k] for k in ("id", "blind", "neutral", "shuffled", "choice", "created", "ended", "reader")}


@router.get("", response_model=Sessions)
def sessions(ctx: Studio, who: Reader, request: Request, study: Name):
    """List the choices for a new session, and past sessions: the reader's, for administrators everyone's."""
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
    with ctx.store().write():  # one transaction: if it is refused the open session continues
        previous = end_session(ctx.store(), who)
        with ctx.writing(request, study=body.study, run=run) as context:
            hidden = context.blind or body.blind
            shuffled = body.shuffled or hidden  # the worklist's default order follows the score
            chosen = session_report.chosen(context, body.choice, body.count, shuffled, seed)
            if not chosen and previous is not None:
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
    """Summarise a session that has ended: times, decisions, and metrics if the reader may see them."""
    row, hidden = asked(ctx, request, who, session)
    visible_fields = session_report.visible(ctx.store(), row, hidden)
    return {"ok": True, "session": about(row), **visible_fields}


@router.get("/{session}/report", response_model=SessionReport)
def report(ctx: Studio, who: Reader, request: Request, session: Id):
    """Return the printed report of a session that has ended: one's own, or anyone's for administrators."""
    row, hidden = asked(ctx, request, who, session)
    sheet = session_report.sheet(ctx.store(), row, hidden)
    return {"ok": True, "session": about(row), "version": version(), **sheet}

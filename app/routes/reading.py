"""Routes of reading sessions: start, end, summary and printed report. reviews.py serves the worklist of a session."""

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
    """Request to start a reading session.

    choice: Kind of cases to read, a key of CHOICES in core/studio/review/session_report.py.
    count: Number of cases to read; 0 for all.
    """

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
    """Reading session that has ended. `blind`, `neutral` (case names) and `shuffled` are 1 or 0."""

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
    """Choices for a new session, and ended sessions (`over`). `blind`: whether the reader now reads the study blind."""

    choices: list[SessionChoice]
    over: list[ListedSession]
    blind: bool


class StartedSession(Answer):
    session: int
    cases: int


class SessionNumber(Answer):
    session: int


class Times(Part):
    """Reading times in seconds: median and quartiles (`low`, `high`) of the time per case, and total of all cases."""

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
    """Summary of a reading session.

    point: Comparison of the reader's last decisions with the labels.
    detector: Comparison of the run's flags with the labels, on the same cases.
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
    """Case in the printed report, with the reader's first and last decision and the result of the session's run."""

    name: str
    first: Decision | None
    decision: Decision | None
    seconds: float | None
    percentile: float | None
    flagged: bool | None


class SessionReport(SessionSummary):
    """Printed report of a reading session.

    which: Title of the choice of cases.
    code, version: Commit of the code that computed the run (or null), and current version of the studio.
    """

    study: str
    reader: str
    which: str
    run: ScoredRun | None
    code: str | None
    version: str
    rows: list[SheetRow]


def default_run(ctx: Context, study: str) -> str | None:
    """Returns the id of the run with which Review opens a study, or None if no run has scored the study."""
    runs = cases.scored_runs(ctx.store(), study)
    return runs[0]["id"] if runs else None


def asked(ctx: Context, request: Request, name: str, number: int) -> tuple[dict, bool]:
    """Returns a session that the reader may see, and whether the reader still reads its study blind."""
    store = ctx.store()
    row = session_report.readable(store, number, name, ctx.administers(name))
    with ctx.reading(request, study=row["study"]) as context:
        return row, context.blinded


def about(row: dict) -> dict:
    """Returns those fields of a session's row that EndedSession declares."""
    return {k: row[k] for k in ("id", "blind", "neutral", "shuffled", "choice", "created", "ended", "reader")}


@router.get("", response_model=Sessions)
def sessions(ctx: Studio, who: Reader, request: Request, study: Name):
    """Lists the choices for a new reading session, and ended sessions: the reader's own, or all for administrators."""
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
    """Starts a reading session and ends the reader's open one."""
    run = default_run(ctx, body.study)
    seed = secrets.randbits(63)
    with ctx.store().write():  # one transaction, so that a refused start leaves the open session as it is
        previous = end_session(ctx.store(), who)
        with ctx.writing(request, study=body.study, run=run) as context:
            hidden = context.blind or body.blind
            shuffled = body.shuffled or hidden  # the worklist's default order follows the score
            chosen = session_report.chosen(context, body.choice, body.count, shuffled, seed)
            if not chosen and previous is not None:
                raise ValueError("There is no case of that kind to read. Your open session continues.")
            number = start_session(
                context.store, body.study, context.reader, chosen, blind=hidden, neutral=body.neutral,
                shuffled=shuffled, choice=body.choice, run=run,
            )  # fmt: skip
    return {"ok": True, "session": number, "cases": len(chosen)}


@router.post("/end", response_model=SessionNumber)
def end(ctx: Studio, who: Reader):
    """Ends the reader's open reading session."""
    number = end_session(ctx.store(), who)
    if number is None:
        raise ValueError("No reading session is open.")
    return {"ok": True, "session": number}


@router.get("/{session}/summary", response_model=SessionSummary)
def summary(ctx: Studio, who: Reader, request: Request, session: Id):
    """Returns the summary of an ended session: times, decisions, and metrics unless they are hidden from the reader."""
    row, hidden = asked(ctx, request, who, session)
    visible_fields = session_report.visible(ctx.store(), row, hidden)
    return {"ok": True, "session": about(row), **visible_fields}


@router.get("/{session}/report", response_model=SessionReport)
def report(ctx: Studio, who: Reader, request: Request, session: Id):
    """Returns the printed report of an ended session. Only administrators get reports of other readers' sessions."""
    row, hidden = asked(ctx, request, who, session)
    sheet = session_report.sheet(ctx.store(), row, hidden)
    return {"ok": True, "session": about(row), "version": version(), **sheet}

"""Reading sessions."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.routes._answers.shared import Answer, Confusion, Decision, Kappa, ScoredRun


class SessionChoice(Answer):
    name: str
    title: str
    cases: int


class EndedSession(Answer):
    """blind, neutral, shuffled: 0 or 1."""

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


class Times(Answer):
    """Seconds a case: the median, the quartiles, and the sum."""

    median: float
    low: float
    high: float
    total: float


class ByDecision(Answer):
    normal: int
    abnormal: int
    unsure: int


class SessionAgreement(Kappa):
    with_: Annotated[str, Field(alias="with")]
    agreement: float | None


class SessionSummary(Answer):
    """point, detector: against the labels, by the reader's last decisions and by the run's flags."""

    session: EndedSession
    cases: int
    read: int
    seconds: Times | None
    decisions: ByDecision
    changed: int
    point: Confusion | None
    detector: Confusion | None
    agreement: list[SessionAgreement]


class SheetRow(Answer):
    """A case of a printed session. first, decision: the first and the last word. percentile, flagged: of the session's
    run."""

    name: str
    first: Decision | None
    decision: Decision | None
    seconds: float | None
    percentile: float | None
    flagged: bool | None


class SessionReport(SessionSummary):
    """which: of which cases, in words. code: the commit that the run was made with. version: of the studio."""

    study: str
    reader: str
    which: str
    run: ScoredRun | None
    code: str | None
    version: str
    rows: list[SheetRow]


ANSWERS: dict[str, Any] = {
    "GET /api/reading": Sessions,
    "POST /api/reading/start": StartedSession,
    "POST /api/reading/end": SessionNumber,
    "GET /api/reading/{session}/summary": SessionSummary,
    "GET /api/reading/{session}/report": SessionReport,
}
BINARY: dict[str, tuple[str, ...]] = {}

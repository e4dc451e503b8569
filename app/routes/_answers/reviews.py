"""The Review tab: the worklist and decisions."""

from __future__ import annotations

from typing import Any

from typing_extensions import NotRequired

from app.routes._answers.cases import CaseDetail
from app.routes._answers.shared import Answer, Decision, Done, ReviewStage, Rights, ScoredRun, Values

Cursor = tuple[int, str | int | float | None, int]  # part of the list, value that it is sorted by, case


class SessionRow(Answer):
    """A reading session. blind, neutral, shuffled: 0 or 1."""

    id: int
    study: str
    reader: str
    blind: int
    neutral: int
    shuffled: int
    choice: str
    run: str | None
    first_review: int
    last_review: int | None
    created: str
    ended: str | None


class ReviewSetup(Answer):
    """version: of the studio. blind: whether the study is read blind first; blinded: whether by this reader."""

    study: str
    reader: str
    version: str
    rights: Rights
    blind: bool
    blinded: bool
    session: SessionRow | None
    runs: list[ScoredRun]
    labels: list[str]
    keys: Values
    show: Values


class WorklistRow(Answer):
    """flagged: 0 or 1. map: when the heat map was made. kinds: those of its tags that came with the import. None of
    these while the case is hidden.
    """

    id: int
    v: str
    name: str
    decision: Decision | None
    first: Decision | None
    second: Decision | None
    adjudicated: Decision | None
    key: Cursor
    score: NotRequired[float | None]
    percentile: NotRequired[float | None]
    flagged: NotRequired[int | None]
    map: NotRequired[str | None]
    tags: NotRequired[list[str]]
    kinds: NotRequired[list[str]]
    disagreement: NotRequired[float]


class Worklist(Answer):
    rows: list[WorklistRow]
    cursor: Cursor | None


class Counts(Answer):
    total: int
    read: int
    unread: int
    normal: int
    abnormal: int
    unsure: int


class ScoreSpread(Answer):
    """How scores are spread: counts of the bins between lo and hi; scores beyond are in the end bins."""

    bins: list[int]
    lo: float
    hi: float
    threshold: float | None


class TagCount(Answer):
    tag: str
    cases: int


class ListOverview(Answer):
    """total: rows of the list as it is filtered. labels: whether it may be filtered by label."""

    total: int
    scores: ScoreSpread | None
    tags: list[TagCount]
    labels: bool


class Place(Answer):
    """at: rows of the list before the case."""

    case: int | None
    at: int | None


class CasesTagged(Answer):
    """changed: how many cases."""

    tag: str
    changed: int


class Ahead(Answer):
    """A case whose picture is fetched before it is asked for. name: where the reader knows it by a neutral one."""

    id: int
    v: str
    bits: int | None
    name: NotRequired[str]


class Entered(Answer):
    case: CaseDetail | None
    ahead: list[Ahead]


class Opened(Answer):
    case: CaseDetail
    ahead: list[Ahead]


class Decided(Answer):
    review: int
    case: int
    stage: ReviewStage
    decision: Decision
    next: CaseDetail | None
    ahead: list[Ahead]


class Reverted(Answer):
    """decision: the one that counts now."""

    review: int
    case: int
    decision: Decision | None
    next: CaseDetail
    ahead: list[Ahead]


ANSWERS: dict[str, Any] = {
    "GET /api/review/open": ReviewSetup,
    "GET /api/review/list": Worklist,
    "GET /api/review/counts": Counts,
    "GET /api/review/overview": ListOverview,
    "GET /api/review/place": Place,
    "POST /api/review/tag": CasesTagged,
    "GET /api/review/step": Entered,
    "GET /api/review/case/{case_id}": Opened,
    "POST /api/review/decide": Decided,
    "POST /api/review/undo": Reverted,
    "POST /api/review/redo": Reverted,
    "POST /api/review/settings": Done,
    "POST /api/review/threshold": Done,
}
BINARY: dict[str, tuple[str, ...]] = {}

"""Bodies of reading: decisions, settings, sessions, findings, tags, clicks."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Interval
from pydantic import Field

from app.routes._bodies.base import Body
from app.routes._types import Finite, Id, Int, Line, Name, Settings


class Travel(Body):
    """Undo and redo. list: the filters and the order of the worklist."""

    study: Name
    token: Name | None = None
    list: Settings | None = None


class Decision(Body):
    """token names the request: sent again it stores nothing. shown: what was on the screen, for the audit trail."""

    case: Id
    decision: Literal["normal", "abnormal", "unsure"]
    comment: str | None = ""
    seconds: float | None = None
    run: Name | None = None
    shown: Settings | None = None
    adjudication: bool = False
    token: Name | None = None
    list: Settings | None = None


class ReviewSettings(Body):
    """keys, show: the reader's own. labels, blind: the study's (administrators)."""

    study: Name = ""
    keys: Settings | None = None
    show: Settings | None = None
    labels: Annotated[list[Name], Field(max_length=200)] | None = None
    blind: bool | None = None


class Threshold(Body):
    case: Id
    run: Name | None = None
    before: float | None = Field(None, alias="from")
    to: float | None = None


class ReadingSession(Body):
    """choice: of core/studio/review/session_choice.py. count: 0 for all of them."""

    study: Name
    choice: Name = "all"
    count: Annotated[int, Interval(ge=0, le=1_000_000)] = 0
    blind: bool = True
    neutral: bool = True
    shuffled: bool = True


class Finding(Body):
    """box: x0, y0, x1, y1 in pixels of the image; a point has both corners alike."""

    case: Id
    label: Name
    comment: Line = ""
    box: Annotated[list[float], Field(min_length=4, max_length=4)] | None = None


class CaseTag(Body):
    """A tag put on cases, or taken off; numbers as the worklist has them."""

    study: Name
    cases: Annotated[list[Id], Field(min_length=1, max_length=20_000)]
    tag: Name
    remove: bool = False


class Clicks(Body):
    """clicks: x, y in the image's pixels, positive. window: x0, y0, x1, y1 of what is in sight; None for all of it."""

    run: Name = ""
    clicks: Annotated[list[tuple[Finite, Finite, bool]], Field(max_length=200)] = []
    window: tuple[Int, Int, Int, Int] | None = None

"""The page's bar, the card of what is being made, and the guided tour."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired

from app.routes._answers.shared import Answer, Job, StatusOfJob


class OpenSession(Answer):
    id: int
    study: str


class Standing(Answer):
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


class Stage(Answer):
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


class TourAct(Answer, total=False):
    tab: str
    click: str
    unless: str
    gone: bool
    tick: str
    untick: str
    set: str
    value: str
    option: str
    slide: str
    through: list[float]
    over: float
    wait: str
    there: str
    found: bool
    press: list[str]
    seconds: float


class TourStep(Answer):
    tab: str
    title: str
    text: str
    at: str
    do: NotRequired[list[TourAct]]
    once: NotRequired[bool]
    seconds: float


class TourSteps(Answer):
    about: str
    steps: list[TourStep]


class TourState(Answer):
    """found: the case with the clearest lesion."""

    study: str
    ready: bool
    job: Job | None
    found: int | None


ANSWERS: dict[str, Any] = {
    "GET /api/status": Status,
    "GET /api/status/plan": Plan,
    "POST /api/status/stop/{job}": StatusOfJob,
    "GET /api/tour": TourState,
    "GET /api/tour/steps": TourSteps,
    "POST /api/tour/prepare": TourState,
    "POST /api/tour/reset": TourState,
}
BINARY = {"GET /tour": ("text/html",), "GET /walk": ("text/html",)}

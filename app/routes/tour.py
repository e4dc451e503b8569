"""Routes of the guided tour: a page that shows the studio in a frame, with the tour's bar below the frame."""

from __future__ import annotations

import json

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from typing_extensions import NotRequired

from app.access.permissions import Administrator, Reader, Studio
from app.context import APP, Context
from app.routes._shared import Job
from app.routes._types import Answer, Part, binary
from app.theme import variables
from core.studio.demo import tour
from core.studio.review import sessions
from core.studio.training import live

router = APIRouter(tags=["tour"])
FOLDER = APP / "widgets" / "tour"


class TourAct(Part, total=False):
    tab: str
    click: str
    unless: str
    gone: bool
    tick: str
    untick: str
    set: str
    value: str
    slide: str
    through: list[float]
    over: float
    wait: str
    there: str
    found: bool
    stored: bool
    press: list[str]
    seconds: float


class TourStep(Part):
    """Step of the tour. `yours` tells whether the reader's decisions are counted during the step."""

    tab: str
    title: str
    text: str
    at: str
    do: NotRequired[list[TourAct]]
    once: NotRequired[bool]
    yours: NotRequired[bool]
    seconds: float


class TourSteps(Answer):
    about: str
    steps: list[TourStep]


class TourAgreement(Part):
    """Agreement of the reader with the detector and with the ground truth.

    read: Number of images that the reader has called normal or abnormal.
    machine, truth: Number of these images on which the run agrees with the reader, and on which the ground truth does.
    missed: Number of abnormal images that the reader called abnormal but the run did not flag.
    """

    read: int
    machine: int
    truth: int
    missed: int


class TourState(Answer):
    """State of the demo study. While the reader reads the study blind, `found` and `agreement` are null.

    found: Id of the abnormal case with the highest score, or null.
    stored: Id of the newest encoder trained on the study, or null.
    """

    study: str
    ready: bool
    job: Job | None
    found: int | None
    stored: str | None
    agreement: NotRequired[TourAgreement | None]


@router.get("/tour", **binary("text/html"))
def page(ctx: Studio, who: Reader):
    """Returns the page of the guided tour."""
    frame = (FOLDER / "tour.html").read_text(encoding="utf-8")
    for name in ("tour.css", "tour.js"):
        frame = frame.replace(f"{{{name}}}", Context.asset(f"widgets/tour/{name}"))
    return HTMLResponse(frame.replace("{palette}", variables()), headers={"Cache-Control": "no-store"})


@router.get("/api/tour", response_model=TourState)
def demo_state(ctx: Studio, who: Reader):
    """Returns the state of the demo study: whether it exists, its job, and the reader's agreement with the detector."""
    state = tour.state(ctx.store())
    blind = sessions.session_status(ctx.store(), who)["blind"]
    hidden = state["study"] in blind
    tour_fields = {"found": None, "agreement": None} if hidden else {"agreement": tour.agreement(ctx.store(), who)}
    return {"ok": True, **state, **tour_fields, **({"job": live.quiet(state["job"])} if blind else {})}


@router.get("/api/tour/steps", response_model=TourSteps)
def steps(ctx: Studio, who: Reader):
    """Returns the steps of the tour, which tour.js carries out."""
    return {"ok": True, **json.loads((FOLDER / "steps.json").read_text(encoding="utf-8"))}


@router.post("/api/tour/prepare", response_model=TourState)
def prepare(ctx: Studio, who: Administrator):
    """Imports the demo study for the tour if it is missing."""
    return {"ok": True, **tour.prepare(ctx.store(), ctx.store().setting("device", "auto"))}


@router.post("/api/tour/reset", response_model=TourState)
def reset(ctx: Studio, who: Administrator):
    """Resets the demo study to its original state (single-user mode only)."""
    if not ctx.single_user:
        raise ValueError("The demo study can be reset in single-user mode only. Start the studio without sign-in.")
    return {"ok": True, **tour.reset(ctx.store(), who)}

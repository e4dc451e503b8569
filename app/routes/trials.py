"""Routes of reader trials: the readers' lists and, for administrators, plans, progress and reports."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Interval
from fastapi import APIRouter, Response

from app.access.permissions import Administrator, Overseer, Reader, Studio
from app.routes._shared import ScoredRun, Values
from app.routes._types import Answer, Body, Done, Finite, Id, Name, Part, Settings, binary
from app.routes.medmix import Group
from core.studio.db import leftovers
from core.studio.forms.fields import form
from core.studio.review import people
from core.studio.review.cases import scored_runs
from core.studio.trials import plan, report
from core.studio.trials.options import TrialPlan

router = APIRouter(prefix="/api/trials", tags=["trials"])
KINDS = {"html": "text/html; charset=utf-8", "pdf": "application/pdf", "zip": "application/zip"}


class ReaderList(Part):
    """Reader's progress in a trial that has several lists (parts). `opens` is when the next list becomes available."""

    trial: int
    study: str
    name: str
    part: int
    parts: int
    cases: int
    read: int
    state: Literal["ready", "open", "waits", "done"]
    opens: str | None


class ReaderLists(Answer):
    lists: list[ReaderList]


class TrialId(Body):
    trial: Id


class OpenedList(Answer):
    session: int
    study: str


class Power(Part):
    readers: int
    cases: int
    power: float


class SampleSizes(Answer):
    rows: list[Power]


class TrialPart(Part):
    reader: str
    number: int
    arm: str
    cases: int
    read: int
    opened: str | None
    ended: str | None


class Trial(Part):
    """Reader trial. `plan` has the options of TrialPlan; `digest` is a hash of the plan, cases and ground truth."""

    id: int
    name: str
    plan: Values
    digest: str
    made_by: str
    created: str
    started: str | None
    frozen: str | None
    closed: str | None
    parts: list[TrialPart]


class Trials(Answer):
    """Trials of a study, and the choices for a new plan. `readers` lists the accounts with the role "reader".

    form: Form fields of a plan.
    usual: Default values of a plan.
    panel: Names of all accounts, and of all other people who have reviewed cases of the study.
    """

    trials: list[Trial]
    form: list[Group]
    usual: Values
    readers: list[str]
    panel: list[str]
    runs: list[ScoredRun]


class NewTrial(Body):
    """Plan to store: for a new trial if `trial` is null, else in place of that trial's plan."""

    plan: Settings
    trial: Id | None = None


class PlannedTrial(Answer):
    trial: int
    digest: str


@router.get("/lists", response_model=ReaderLists)
def lists(ctx: Studio, who: Reader):
    """Lists the running trials of the reader, with the state of the reader's next list in each trial."""
    return {"ok": True, "lists": plan.lists_of(ctx.store(), who)}


@router.post("/open", response_model=OpenedList)
def open_list(ctx: Studio, who: Reader, body: TrialId):
    """Opens the reader's next list of a trial."""
    with ctx.store().write():
        session = plan.open_part(ctx.store(), body.trial, who)
        return {"ok": True, "session": session, "study": plan.get(ctx.store(), body.trial)["study"]}


@router.get("/sizes", response_model=SampleSizes)
def sizes(
    ctx: Studio,
    who: Reader,
    difference: Annotated[Finite, Interval(gt=0, lt=1)] = 0.05,
    area: Annotated[Finite, Interval(gt=0.5, lt=1)] = 0.85,
    abnormal: Annotated[Finite, Interval(gt=0, lt=1)] = 0.5,
):
    """Returns the power of a trial to detect a difference in AUROC, for several numbers of readers and cases."""
    return {"ok": True, "rows": report.sizes(difference, area, abnormal)}


@router.get("/of/{study}", response_model=Trials)
def trials(ctx: Studio, who: Administrator, study: Name):
    """Lists the trials of a study, and the choices for a new plan."""
    store = ctx.store()
    accounts = people.list_readers(store)
    return {
        "ok": True,
        "trials": [_shown(store, row["id"]) for row in plan.of_study(store, study)],
        "form": form(TrialPlan),
        "usual": plan.plan_defaults(),
        "readers": [row["name"] for row in accounts if row["role"] == "reader"],
        "panel": people.known_readers(store, study),
        "runs": scored_runs(store, study),
    }


@router.post("/of/{study}", response_model=PlannedTrial)
def planned(ctx: Studio, who: Administrator, study: Name, body: NewTrial):
    """Stores a plan for a new trial, or for a trial in which nobody has decided yet."""
    with ctx.store().write():
        number = plan.make(ctx.store(), study, TrialPlan.from_dict(body.plan), who, body.trial)
        return {"ok": True, "trial": number, "digest": plan.get(ctx.store(), number)["digest"]}


@router.post("/{trial}/start", response_model=Done)
def start(ctx: Studio, who: Administrator, trial: Id):
    """Opens a trial to its readers."""
    plan.start(ctx.store(), trial, who)
    return {"ok": True}


@router.post("/{trial}/close", response_model=Done)
def close(ctx: Studio, who: Administrator, trial: Id):
    """Closes a trial, so that its report can be made."""
    plan.close(ctx.store(), trial, who)
    return {"ok": True}


@router.get("/{trial}/report/{kind}", **binary("text/html", "application/pdf", "application/zip"))
def handed_in(ctx: Studio, who: Overseer, trial: Id, kind: Literal["html", "pdf", "zip"]):
    """Returns the report of a closed trial as a web page, as a PDF, or as a zip with the trial's lists and plan."""
    folder = leftovers.begin(ctx.home.cache)
    try:
        report.write(ctx.store(), trial, folder)
        content = report.bundled(folder) if kind == "zip" else (folder / f"report.{kind}").read_bytes()
    finally:
        leftovers.discard(folder)
    disposition = "inline" if kind != "zip" else "attachment"
    head = {"Content-Disposition": f'{disposition}; filename="trial-{trial}.{kind}"', "Cache-Control": "no-store"}
    return Response(content, media_type=KINDS[kind], headers=head)


def _shown(store, number: int) -> dict[str, Any]:
    row = plan.get(store, number)
    fields = ("id", "name", "digest", "made_by", "created", "started", "frozen", "closed")
    trial_parts = [{k: p[k] for k in TrialPart.__annotations__} for p in plan.progress(store, number)]
    return {**{k: row[k] for k in fields}, "plan": row["plan"].to_dict(), "parts": trial_parts}

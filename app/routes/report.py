"""The Report tab: the paper's tables on a study as far as they are made, what makes the rest, and the files written."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from fastapi.responses import FileResponse
from pydantic import Field

from app.access.permissions import Administrator, Sighted, Studio
from app.routes._shared import JobStatus
from app.routes._types import Answer, Body, Int, Name, Part, Seeds, binary
from core.studio.db.store import NotFound
from core.studio.ingest.studies import show_study
from core.studio.report import asked
from core.studio.report.board import board, missing
from core.studio.report.tables import BUDGETS, NETWORKS, TABLES

router = APIRouter(prefix="/api/report", tags=["report"])


class NewReport(Body):
    """A report to make. tables: by name, none for all of them. network: of all rows, none for the budget's own."""

    tables: Annotated[list[Name], Field(max_length=20)] = []
    seeds: Seeds = 2
    budget: Literal["quick", "paper"] = "quick"
    network: Name | None = None
    protocol: Literal["paper", "held-out"] = "paper"


class NamedTable(Part):
    name: str
    title: str


class NamedNetwork(Part):
    """A network that all rows can have. budget: which takes it by itself; null for none."""

    name: str
    title: str
    budget: str | None


class ReportChoices(Part):
    tables: list[NamedTable]
    networks: list[NamedNetwork]


class ReportSeed(Part):
    """The runs of a row by one seed. fit, encoder: null where none is made."""

    seed: int
    fit: str | None
    encoder: str | None


class ReportValue(Part):
    mean: float
    deviation: float | None


class ReportRow(Part):
    """A row of one of the paper's tables.

    values: ours by metric; paper: the published ones. starred, paper_starred: nothing of it, or of the paper's row, had
    ImageNet's weights. collapsed: how many encoders. failed: why nothing is made.
    """

    label: str
    starred: bool
    paper_starred: bool
    values: dict[str, ReportValue]
    paper: dict[str, float]
    seeds: list[ReportSeed]
    seconds: float | None
    collapsed: int
    failed: str


class ReportHead(Part):
    metric: str
    title: str


class ReportTable(Part):
    name: str
    title: str
    heads: list[ReportHead]
    rows: list[ReportRow]


class ReportJob(Part):
    id: int
    status: JobStatus
    progress: float
    message: str


class Beside(Part):
    """Whose published numbers stand beside ours, and whether they are of these images."""

    dataset: str
    own: bool


class ReportBoard(Answer):
    """The paper's tables as far as they are made: `done` of `wanted` cells.

    network: of all rows, said. files: kinds that the last report wrote, at `made`.
    """

    choices: ReportChoices
    tables: list[ReportTable]
    done: int
    wanted: int
    job: ReportJob | None
    files: list[str]
    made: str | None
    network: str
    beside: Beside


class MissingCells(Answer):
    """What is still to be made. rows: seconds of each row that misses a cell, by table and label."""

    cells: int
    seconds: float
    rows: dict[str, dict[str, float]]


class AskedReport(Answer):
    job: int


@router.get("/{study}", response_model=ReportBoard)
def show(
    ctx: Studio,
    who: Sighted,
    study: str,
    seeds: Seeds = 2,
    budget: Name = "quick",
    network: Name | None = None,
    protocol: Name = "paper",
    roi: Int = 0,
):
    """Show the paper's tables as far as they are made, and what is missing."""
    store = ctx.store()
    settings = asked.settings(store, study, seeds=seeds, budget=budget, network=network, protocol=protocol)
    own = {name: budget for budget, name in BUDGETS.items()}
    choices = {
        "tables": [{"name": name, "title": make().title} for name, make in TABLES.items()],
        "networks": [
            {"name": name, "title": network.words, "budget": own.get(name)} for name, network in NETWORKS.items()
        ],
    }
    return {"ok": True, "choices": choices, **board(store, settings["study"], settings, bool(roi))}


@router.post("/{study}/time", response_model=MissingCells)
def time(ctx: Studio, who: Administrator, study: str, body: NewReport):
    """Count the cells that are still to be made, and estimate how long they take; nothing is started."""
    store = ctx.store()
    settings = asked.settings(store, study, **body.model_dump())
    return {"ok": True, **missing(store, settings["study"], settings)}


@router.post("/{study}", response_model=AskedReport)
def make(ctx: Studio, who: Administrator, study: str, body: NewReport):
    """Queue what is missing; the files are written when all of it is there."""
    store = ctx.store()
    device = store.setting("device", "auto")
    settings = asked.settings(store, study, **body.model_dump(), device=device)
    return {"ok": True, "job": asked.submit(store, settings)}


@router.get(
    "/{study}/file.{kind}", **binary("text/html", "text/csv", "application/x-tex", "text/x-tex", "application/json")
)
def file(ctx: Studio, who: Sighted, study: str, kind: str):
    """Return the last report: html opens in the browser, csv, tex and json are downloads."""
    store = ctx.store()
    path = asked.folder(store, show_study(store, study)["id"]) / asked.FILES.get(kind, "")
    if not path.is_file():
        raise NotFound("this report has not been written yet")
    place = "inline" if kind == "html" else "attachment"
    return FileResponse(path, filename=f"{study}-{path.name}", content_disposition_type=place)

"""The Report tab: the paper's tables on a study as far as they exist, jobs for the rest, and the written files."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from fastapi.responses import FileResponse
from pydantic import Field

from app.access.permissions import Administrator, Sighted, Studio
from app.routes._shared import JobNumber, JobStatus
from app.routes._types import Answer, Body, Int, Name, Part, Seeds, binary
from core.studio.db.store import NotFound
from core.studio.ingest.studies import show_study
from core.studio.report import board as reports
from core.studio.report.board import board, missing
from core.studio.report.tables import BUDGETS, NETWORKS, TABLES

router = APIRouter(prefix="/api/report", tags=["report"])


class NewReport(Body):
    """A report to make. tables: empty for all. network: the backbone of all rows; null for the budget's default."""

    tables: Annotated[list[Name], Field(max_length=20)] = []
    seeds: Seeds = 2
    budget: Literal["quick", "paper"] = "quick"
    network: Name | None = None
    protocol: Literal["paper", "held-out"] = "paper"


class NamedTable(Part):
    name: str
    title: str


class NamedNetwork(Part):
    """A backbone that all rows can use. budget: the budget whose default it is, or null."""

    name: str
    title: str
    budget: str | None


class ReportChoices(Part):
    tables: list[NamedTable]
    networks: list[NamedNetwork]


class ReportSeed(Part):
    """The runs of a row with one seed. fit, encoder: ids of the runs; null if not made yet."""

    seed: int
    fit: str | None
    encoder: str | None


class ReportValue(Part):
    mean: float
    deviation: float | None


class ReportRow(Part):
    """A row of one of the paper's tables.

    values: our results by metric; paper: the published ones. starred, paper_starred: whether our row, or the paper's,
    uses no ImageNet weights. seconds: mean time. collapsed: number of collapsed encoders. failed: the error, or "".
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
    """The dataset of the published numbers shown next to ours. own: whether the study is of that dataset."""

    dataset: str
    own: bool


class ReportBoard(Answer):
    """The paper's tables as far as they exist: `done` of `wanted` cells.

    network: the backbone of all rows, as a sentence. files: formats of the last report, which was written at `made`.
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
    """The cells (a row with one seed) without a result. rows: estimated seconds of each row, by table and label."""

    cells: int
    seconds: float
    rows: dict[str, dict[str, float]]


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
    """Return the paper's tables as far as they exist, and what is missing."""
    store = ctx.store()
    settings = reports.settings(store, study, seeds=seeds, budget=budget, network=network, protocol=protocol)
    budget_of = {name: budget for budget, name in BUDGETS.items()}
    choices = {
        "tables": [{"name": name, "title": make().title} for name, make in TABLES.items()],
        "networks": [
            {"name": name, "title": network.words, "budget": budget_of.get(name)} for name, network in NETWORKS.items()
        ],
    }
    return {"ok": True, "choices": choices, **board(store, settings["study"], settings, bool(roi))}


@router.post("/{study}/time", response_model=MissingCells)
def time(ctx: Studio, who: Administrator, study: str, body: NewReport):
    """Count the missing cells and estimate how long they take; nothing is started."""
    store = ctx.store()
    settings = reports.settings(store, study, **body.model_dump())
    return {"ok": True, **missing(store, settings["study"], settings)}


@router.post("/{study}", response_model=JobNumber)
def make(ctx: Studio, who: Administrator, study: str, body: NewReport):
    """Queue the missing cells; the files are written when all are complete."""
    store = ctx.store()
    device = store.setting("device", "auto")
    settings = reports.settings(store, study, **body.model_dump(), device=device)
    return {"ok": True, "job": reports.submit(store, settings)}


@router.get(
    "/{study}/file.{kind}", **binary("text/html", "text/csv", "application/x-tex", "text/x-tex", "application/json")
)
def file(ctx: Studio, who: Sighted, study: str, kind: str):
    """Return the last report: html opens in the browser, csv, tex and json are downloads."""
    store = ctx.store()
    path = reports.folder(store, show_study(store, study)["id"]) / reports.FILES.get(kind, "")
    if not path.is_file():
        raise NotFound("this report has not been written yet")
    disposition = "inline" if kind == "html" else "attachment"
    return FileResponse(path, filename=f"{study}-{path.name}", content_disposition_type=disposition)

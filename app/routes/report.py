"""Routes of the Report tab: the paper's tables for a study, jobs for missing results, and the report's files."""

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
    """Request to make a report.

    tables: Names of the tables; empty for all.
    network: Backbone of all rows, or null for the default of `budget`.
    """

    tables: Annotated[list[Name], Field(max_length=20)] = []
    seeds: Seeds = 2
    budget: Literal["quick", "paper"] = "quick"
    network: Name | None = None
    protocol: Literal["paper", "held-out"] = "paper"


class NamedTable(Part):
    name: str
    title: str


class NamedNetwork(Part):
    """Backbone that a report can use for all rows. `budget` names the budget of which it is the default, or is null."""

    name: str
    title: str
    budget: str | None


class ReportChoices(Part):
    tables: list[NamedTable]
    networks: list[NamedNetwork]


class ReportSeed(Part):
    """Runs that computed a row with one seed. `fit` and `encoder` are run ids, or null if a run does not exist yet."""

    seed: int
    fit: str | None
    encoder: str | None


class ReportValue(Part):
    mean: float
    deviation: float | None


class ReportRow(Part):
    """Row of one of the paper's tables. `values` has our results and `paper` the published results, by metric.

    starred: Whether our results were obtained without ImageNet weights; paper_starred: whether the published ones were.
    seconds: Mean computing time per seed, or null.
    collapsed: Number of seeds whose encoder has collapsed.
    failed: Error message of the last report generation, or "".
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


class ComparisonDataset(Part):
    """Dataset of the published results shown: Hyper-Kvasir, unless the study has the name of another (`own`)."""

    dataset: str
    own: bool


class ReportBoard(Answer):
    """The paper's tables for a study. A cell is one row computed with one seed.

    done, wanted: Number of finished cells, and number of all cells.
    files: File formats of the last report, written at the time `made`.
    network: Sentence that states the backbone of all rows.
    """

    choices: ReportChoices
    tables: list[ReportTable]
    done: int
    wanted: int
    job: ReportJob | None
    files: list[str]
    made: str | None
    network: str
    beside: ComparisonDataset


class MissingCells(Answer):
    """Number of report cells still to be computed, and estimated seconds: in total, and in `rows` by table and row."""

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
    """Returns the paper's tables for a study, with the results that exist."""
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
    """Returns the number of report cells still to be computed and their estimated time, without starting anything."""
    store = ctx.store()
    settings = reports.settings(store, study, **body.model_dump())
    return {"ok": True, **missing(store, settings["study"], settings)}


@router.post("/{study}", response_model=JobNumber)
def make(ctx: Studio, who: Administrator, study: str, body: NewReport):
    """Queues all report cells still to be computed. The report's files are written when all cells are finished."""
    store = ctx.store()
    device = store.setting("device", "auto")
    settings = reports.settings(store, study, **body.model_dump(), device=device)
    return {"ok": True, "job": reports.submit(store, settings)}


@router.get(
    "/{study}/file.{kind}", **binary("text/html", "text/csv", "application/x-tex", "text/x-tex", "application/json")
)
def file(ctx: Studio, who: Sighted, study: str, kind: str):
    """Returns a file of the last report. html opens in the browser; csv, tex and json are downloads."""
    store = ctx.store()
    path = reports.folder(store, show_study(store, study)["id"]) / reports.FILES.get(kind, "")
    if not path.is_file():
        raise NotFound("This report has not been written yet. Make it on the Report tab.")
    disposition = "inline" if kind == "html" else "attachment"
    return FileResponse(path, filename=f"{study}-{path.name}", content_disposition_type=disposition)

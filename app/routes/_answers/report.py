"""The Report tab: the paper's tables on a study as far as they are made."""

from __future__ import annotations

from typing import Any

from app.routes._answers.shared import Answer, JobStatus


class NamedTable(Answer):
    name: str
    title: str


class ReportChoices(Answer):
    tables: list[NamedTable]


class ReportSeed(Answer):
    """fit, encoder: the runs; null where none is made."""

    seed: int
    fit: str | None
    encoder: str | None


class ReportValue(Answer):
    mean: float
    deviation: float | None


class ReportRow(Answer):
    """values: ours by metric; paper: the published ones. collapsed: how many encoders. failed: why nothing is made."""

    label: str
    values: dict[str, ReportValue]
    paper: dict[str, float]
    seeds: list[ReportSeed]
    seconds: float | None
    collapsed: int
    failed: str


class ReportHead(Answer):
    metric: str
    title: str


class ReportTable(Answer):
    name: str
    title: str
    heads: list[ReportHead]
    rows: list[ReportRow]


class ReportJob(Answer):
    id: int
    status: JobStatus
    progress: float
    message: str


class Beside(Answer):
    """Whose published numbers stand beside ours, and whether they are of these images."""

    dataset: str
    own: bool


class ReportBoard(Answer):
    """done of wanted cells are made. files: kinds that the last report wrote, at `made`."""

    choices: ReportChoices
    tables: list[ReportTable]
    done: int
    wanted: int
    job: ReportJob | None
    files: list[str]
    made: str | None
    beside: Beside


class AskedReport(Answer):
    job: int


ANSWERS: dict[str, Any] = {"GET /api/report/{study}": ReportBoard, "POST /api/report/{study}": AskedReport}
_TEX = ("application/x-tex", "text/x-tex")  # as the machine has it
BINARY = {"GET /api/report/{study}/file.{kind}": ("text/html", "text/csv", *_TEX, "application/json")}

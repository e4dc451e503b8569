"""Runs: their list, one in detail, several compared."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypeAliasType

from app.routes._answers.shared import Answer, Job, Values

Point = TypeAliasType("Point", tuple[int, float | None])  # step, value; null where the run has no number
Series = TypeAliasType("Series", dict[str, list[Point]])


class Evaluation(Answer):
    auroc: float | None
    ap: float | None
    sensitivity: float | None
    specificity: float | None
    pixel_auroc: float | None
    dice: float | None
    iou: float | None
    pro: float | None
    protocol: str | None
    roi: bool | None


class RunRow(Answer):
    """left: seconds until it is done; null where nothing is at it. archived: 0 or 1."""

    id: str
    kind: Literal["pretrain", "fit"]
    name: str
    parent: str | None
    method: str
    status: str
    created: str
    finished: str | None
    seconds: float | None
    note: str
    archived: int
    epochs: int | None
    size: int | None
    collapsed: bool
    job: Job | None
    left: float | None
    latest: dict[str, float]
    evaluation: Evaluation | None


class RunRows(Answer):
    runs: list[RunRow]


class Run(Answer):
    """A run's row. archived: 0 or 1."""

    id: str
    study: str
    kind: Literal["pretrain", "fit"]
    name: str
    parent: str | None
    method: str
    config: Values
    status: str
    folder: str | None
    created: str
    finished: str | None
    seconds: float | None
    code: str | None
    packages: dict[str, str] | None
    device: str | None
    note: str
    archived: int
    summary: Values
    binned: str | None


class StudyOfRun(Answer):
    name: str
    fingerprint: str | None


class Steps(Answer):
    steps: int
    epochs: int
    per_epoch: int
    images: int


class Matrix(Answer):
    step: int
    rows: list[list[float | None]]


class LogLine(Answer):
    at: str
    line: str


class FitOfRun(Answer):
    id: str
    name: str
    method: str
    status: str
    evaluation: Evaluation | None


class RunDetail(Answer):
    """series: what is new since the step that was asked for, or all of it where `reset`."""

    run: Run
    data: StudyOfRun | None
    job: Job | None
    plan: Steps
    alarm: str | None
    confusion: Matrix | None
    distances: Matrix | None
    log: list[LogLine]
    children: list[FitOfRun]
    evaluation: Evaluation | None
    series: Series
    stride: int
    last: int
    reset: bool


class ComparedRun(Answer):
    id: str
    name: str
    method: str
    status: str


class Difference(Answer):
    key: str
    values: list[Any]


class Compared(Answer):
    runs: list[ComparedRun]
    series: list[Series]
    differences: list[Difference]


ANSWERS: dict[str, Any] = {
    "GET /api/training/runs": RunRows,
    "GET /api/training/run/{run_id}": RunDetail,
    "GET /api/training/compare": Compared,
}
BINARY = {"GET /api/training/run/{run_id}/batch.png": ("image/png",)}

"""The Study tab: imports, and what a study holds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator
from typing_extensions import NotRequired, TypeAliasType

from app.routes._answers.shared import Answer, Done, Polygons, SampleCase, Values


class Task(Answer):
    """Of an import: a token to ask for its state."""

    task: str


class Rejected(Answer):
    path: str
    reason: str


class Duplicate(Answer):
    kind: str
    train: str
    test: str
    correlation: float


class Straddling(Answer):
    """Names of one patient's images."""

    train: list[str]
    test: list[str]


class Report(Answer):
    """first: the first new case, where cases were added to a study."""

    study: str
    accepted: int
    rejected: list[Rejected]
    duplicates: list[Duplicate]
    layout: NotRequired[str]
    masks: NotRequired[int]
    counts: NotRequired[dict[str, int]]
    burned_in: NotRequired[list[str]]
    patients: NotRequired[int]
    straddling: NotRequired[list[Straddling]]
    first: NotRequired[int | None]


class _Import(Answer):
    """done, total: images. started: seconds since 1970. stop: somebody has asked for it."""

    done: int
    total: int
    started: float
    stop: NotRequired[bool]


class RunningImport(_Import):
    state: Literal["running"]


class DoneImport(_Import):
    state: Literal["done"]
    report: Report


class FailedImport(_Import):
    state: Literal["failed"]
    error: str


_Imports = RunningImport | DoneImport | FailedImport
ImportState = TypeAliasType("ImportState", Annotated[_Imports, Discriminator("state")])


class Look(Answer):
    job: int
    encoder: str
    fit: str


class Drop(Answer):
    drop: str


class Study(Answer):
    id: str
    name: str
    created: str
    folder: str | None
    layout: str | None
    config: Values
    fingerprint: str | None
    binned: str | None
    cases: int
    masks: int
    counts: dict[str, int]


class ByLabel(Answer):
    normal: int
    abnormal: int
    unknown: int


class Table(Answer):
    train: ByLabel
    holdout: ByLabel
    test: ByLabel


class BySplit(Answer):
    train: int
    holdout: int
    test: int


class Overview(Answer):
    """sizes: the four most frequent, with how many images have them, of size_count."""

    study: Study
    table: Table
    masks: BySplit
    sizes: list[tuple[str, int]]
    size_count: int
    bits: list[int]
    modalities: list[str]
    report: Report | None


class Next(Answer):
    """guess, kept: of kinds. look: seconds that a first look takes."""

    kinds: dict[str, str]
    guess: str | None
    kept: str | None
    scored: bool
    trained: bool
    look: float


class Labels(Answer):
    labels: list[str]


class Sample(Answer):
    cases: list[SampleCase]


class Outlines(Answer):
    roi: Polygons
    lesion: Polygons


ANSWERS: dict[str, Any] = {
    "POST /api/study/import": Task,
    "GET /api/study/import/{task}": ImportState,
    "POST /api/study/import/{task}/stop": Done,
    "POST /api/study/demo": Task,
    "POST /api/study/drop": Drop,
    "PUT /api/study/drop/{token}": Done,
    "POST /api/study/{study}/add": Task,
    "POST /api/study/{study}/look": Look,
    "POST /api/study/{study}/kind": Labels,
    "GET /api/study/{study}/overview": Overview,
    "GET /api/study/{study}/next": Next,
    "GET /api/study/{study}/sample": Sample,
    "GET /api/study/case/{case_id}/outlines": Outlines,
    "DELETE /api/study/{study}": Done,
}
BINARY = {
    "GET /api/study/case/{case_id}/tile.png": ("image/png",),
}

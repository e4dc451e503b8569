"""Models that the answers of several resources share."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypeAliasType

from app.routes._types import Answer, Part

Values = dict[str, Any]  # settings, as core/engine or the page names them
Rectangle = tuple[float, float, float, float]  # x0, y0, x1, y1
Polygons = list[list[tuple[float, float]]]  # x, y as fractions of the image's width and height
Decision = TypeAliasType("Decision", Literal["normal", "abnormal", "unsure"])
Split = TypeAliasType("Split", Literal["train", "holdout", "test"])
Label = TypeAliasType("Label", Literal["normal", "abnormal", "unknown"])
ReviewStage = TypeAliasType("ReviewStage", Literal["first", "second", "adjudication"])
JobStatus = TypeAliasType(
    "JobStatus", Literal["queued", "running", "paused", "interrupted", "failed", "cancelled", "done"]
)


class Job(Part):
    """A job as the page lists it.

    share: the finished fraction of the run that it is working on, 0 to 1.
    here, ahead: in a list of runs, whether it works on the row's run now, or will later; null elsewhere.
    """

    id: int
    status: JobStatus
    run: str | None
    verb: str
    share: float
    message: str
    error: str | None
    wants: str
    position: int
    here: bool | None
    ahead: bool | None
    steps: list[str]


class JobAsked(Answer):
    """The answer to a request for a result that a job computes once. job: its id; null if the result is ready."""

    key: str
    ready: bool
    job: int | None


class JobNumber(Answer):
    """The answer to a request that has queued a job."""

    job: int


class StatusOfJob(Answer):
    status: JobStatus


class Share(Part):
    """A proportion: hits of n, with the 95 % Wilson interval; null if n is 0."""

    value: float | None
    low: float | None
    high: float | None
    hits: int
    n: int


class Confusion(Part):
    tp: int
    fp: int
    fn: int
    tn: int
    sensitivity: Share
    specificity: Share
    ppv: Share
    npv: Share


class Kappa(Part):
    kappa: float | None
    low: float | None
    high: float | None
    n: int


class NamedRun(Part):
    id: str
    name: str
    method: str


class Rights(Part):
    role: Literal["reader", "adjudicator", "administrator", "single"]
    administer: bool
    adjudicate: bool


class ScoredRun(NamedRun):
    """A run that has scored a study.

    first: whether it represents its detector: the adopted run, else the newest on a trained encoder, else the newest.
    encoder: method of its encoder's run. adopted: whether an administrator put it first. compares: whether it can show
    the normal patch that a patch was compared with.
    """

    title: str
    encoder: str | None
    created: str
    first: bool
    adopted: bool
    compares: bool


class SampleCase(Part):
    id: int
    name: str
    split: Split
    label: Label
    width: int
    height: int

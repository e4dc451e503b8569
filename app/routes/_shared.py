"""Models that the answers of several routes share."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypeAliasType

from app.routes._types import Answer, Part

Values = dict[str, Any]  # settings by name
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
    """Job as the page lists it.

    share: Completed fraction (0 to 1) of the run that the job is working on.
    here: In a list of runs, whether the job is working on the listed run now; null elsewhere.
    ahead: In a list of runs, whether the job will work on the listed run later; null elsewhere.
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
    """Answer to a request for a result that a job computes and stores. `job` is null if the result exists already."""

    key: str
    ready: bool
    job: int | None


class JobNumber(Answer):
    """Answer to a request that has queued a job, with the job's id."""

    job: int


class StatusOfJob(Answer):
    status: JobStatus


class Share(Part):
    """Proportion `value` = `hits` / `n`, with its 95 % Wilson interval from `low` to `high`; null if `n` is 0."""

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
    """Run that has scored a study. `adopted` tells whether an administrator has put the run first.

    encoder: Pre-training method of the run's encoder, or null.
    first: Whether the run is the first with its detector: the adopted run, or else the newest on a trained encoder.
    compares: Whether the run can show, for a patch of a case, the most similar normal patch.
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

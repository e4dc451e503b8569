"""Routes of the Training tab. They read and write the store; worker processes do the actual work."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from typing_extensions import NotRequired, TypeAliasType

from app.access import permissions
from app.access.permissions import Sighted, Studio, owner_of
from app.access.turns import DryTurns, waits_for_memory
from app.routes import _pixels as pixels
from app.routes._shared import Job, JobStatus, NamedRun, Values
from app.routes._types import Answer, Body, Done, Id, Int, Line, Name, Part, Settings, binary
from app.routes.medmix import Group, WeakForm
from core.studio.medmix.preview import BatchStrip
from core.studio.runs import records as runs
from core.studio.training import dryrun, live
from core.studio.training import requests as training
from core.studio.training.live import series

router = APIRouter(prefix="/api/training", tags=["training"])
COMPARED = 6
LOOK = 0.1  # seconds between checks whether a dry run has its turn


class TrainingConfig(Body):
    config: Settings


class DryRunOf(TrainingConfig):
    study: Name


class Training(DryRunOf):
    """Request to start a training run. `detectors` maps names of detectors to fit afterwards to their options."""

    detectors: dict[Name, Settings]
    name: Name = ""


class Fit(Body):
    detectors: dict[Name, Settings]


class Action(Body):
    value: Line = ""


Point = TypeAliasType("Point", tuple[int, float | None])  # step, value (null if not finite)
Series = TypeAliasType("Series", dict[str, list[Point]])


class Evaluation(Part):
    auroc: float | None
    ap: float | None
    sensitivity: float | None
    specificity: float | None
    pixel_auroc: float | None
    dice: float | None
    iou: float | None
    pro: float | None
    pro_all: float | None
    protocol: str | None
    roi: bool | None
    cases: int | None
    masks: str | None
    set: str | None


class _Run(NamedRun):
    """Facts about a run. `archived` is 1 or 0."""

    kind: Literal["pretrain", "fit"]
    parent: str | None
    status: str
    created: str
    finished: str | None
    seconds: float | None
    note: str
    archived: int


class RunRow(_Run):
    """Run in a list. `left` is the estimated number of seconds until the run is done, or null if no job works on it."""

    epochs: int | None
    size: int | None
    collapsed: bool
    job: Job | None
    left: float | None
    latest: dict[str, float]
    evaluation: Evaluation | None


class RunRows(Answer):
    runs: list[RunRow]


class Run(_Run):
    """Run with its settings and results. `archived` is 1 or 0."""

    study: str
    config: Values
    folder: str | None
    code: str | None
    packages: dict[str, str] | None
    device: str | None
    summary: Values
    binned: str | None


class StudyOfRun(Part):
    name: str
    fingerprint: str | None


class Steps(Part):
    steps: int
    epochs: int
    per_epoch: int
    images: int


class Matrix(Part):
    step: int
    rows: list[list[float | None]]


class LogLine(Part):
    at: str
    line: str


class RunDetail(Answer):
    """Details of a run.

    left: Estimated number of seconds until the run is done, or null if no job works on it.
    series: Metrics after the requested step, or of all steps if `reset` is true; mostly of every `stride`-th step only.
    last: Last step with stored metrics, or -1.
    """

    run: Run
    data: StudyOfRun | None
    job: Job | None
    left: float | None
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


class ComparedRun(NamedRun):
    status: str


class FitOfRun(ComparedRun):
    evaluation: Evaluation | None


class Difference(Part):
    key: str
    values: list[Any]


class Compared(Answer):
    runs: list[ComparedRun]
    series: list[Series]
    differences: list[Difference]


class Title(Part):
    title: str


class DetectorForm(Part):
    """Form of a detector. If it learns from synthetic lesions, `lesions` has preset settings by kind of lesion."""

    title: str
    form: list[Group]
    defaults: Values
    lesions: dict[str, Values]


class TrainingForms(Answer):
    """Forms of a pre-training run and of each detector.

    notes: Remark on each preset, shown before the preset is chosen.
    archs: Backbone by name of the weights file, for files that were added with the name of a backbone.
    """

    objectives: dict[str, Title]
    presets: dict[str, Values]
    notes: dict[str, str]
    usual: str
    pasted: dict[str, str]
    form: list[Group]
    encoder: list[Group]
    archs: dict[str, str]
    weak: WeakForm
    strong: dict[str, str]
    detectors: dict[str, DetectorForm]
    lesions: dict[str, str]
    device: str


class DryRun(Answer):
    """Measurements of a dry run. `memory` and `free` are in bytes. Most fields are missing if memory ran out."""

    fits: bool
    message: str
    seconds_step: NotRequired[float]
    seconds_epoch: NotRequired[float]
    seconds_total: NotRequired[float]
    steps: NotRequired[int]
    per_epoch: NotRequired[int]
    images: NotRequired[int]
    memory: NotRequired[int]
    free: NotRequired[int]
    device: NotRequired[str]
    timed: NotRequired[int]


class Started(Answer):
    run: str
    fits: list[str]
    job: int


class StartedFits(Answer):
    fits: list[str]
    job: int


class Repeated(Answer):
    run: str
    job: int


class Freed(Answer):
    bytes: int


class RunAction(Answer):
    """Result of an action: the job's `status` (pause, resume, cancel) or the `bytes` moved to the bin (delete)."""

    status: NotRequired[JobStatus]
    bytes: NotRequired[int]


@router.get("/forms", response_model=TrainingForms)
def forms(ctx: Studio, who: Sighted):
    """Returns the settings forms for pre-training and for each detector, with their presets."""
    return {"ok": True, **training.training_forms(ctx.store())}


@router.post("/check", response_model=Done)
def check(ctx: Studio, who: Sighted, body: TrainingConfig):
    """Checks a configuration without starting a run."""
    training.checked(body.config, ctx.store(), ctx.files_of(who))
    return {"ok": True}


@router.post("/dry", response_model=DryRun, dependencies=[waits_for_memory(dryrun.LEAST, DryTurns)])
def dry(ctx: Studio, who: Sighted, body: DryRunOf):
    """Times the first steps of a training run and measures their memory.

    At most two dry runs, requested by different readers, run at once. Other requests wait in order of arrival.
    """
    ready = training.checked(body.config, ctx.store(), ctx.files_of(who)).to_dict()
    return {"ok": True, **dryrun.dry_run(ctx.store().home.path, body.study, ready)}


@router.post("/start", response_model=Started)
def start(ctx: Studio, who: Sighted, body: Training):
    """Queues a training run, followed by fits of the requested detectors."""
    files = ctx.files_of(who)
    with ctx.making(who, "run", 1 + len(body.detectors)) as record_owner:
        started = training.start(ctx.store(), body.study, body.config, body.name, body.detectors, files=files)
        record_owner([started["run"], *started["fits"]])
    return {"ok": True, **started}


@router.get("/runs", response_model=RunRows)
def list_runs(ctx: Studio, who: Sighted, study: Name, archived: bool = False):
    """Lists the runs of a study, with their jobs and metrics."""
    return {"ok": True, "runs": live.overview(ctx.store(), study, archived)}


@router.get("/run/{run_id}", response_model=RunDetail)
def show(ctx: Studio, who: Sighted, run_id: str, after: Int = -1, stride: Id = 0):
    """Returns the details of a run and its metrics after step `after`. `stride` comes from the previous answer."""
    return {"ok": True, **live.detail(ctx.store(), ctx.held(live.Alarms, ctx.store()), run_id, after, stride)}


@router.get("/run/{run_id}/batch.png", **binary("image/png"))
def batch(ctx: Studio, who: Sighted, run_id: str, step: Id = 0):
    """Returns a picture of the augmented views in the batch that a training run draws at the given step."""
    mosaic = ctx.held(BatchStrip, ctx.store()).strip(run_id, step)
    return pixels.picture(mosaic)


@router.post("/run/{run_id}/fit", response_model=StartedFits)
def fit(ctx: Studio, who: Sighted, run_id: str, body: Fit):
    """Queues fits of detectors on a trained encoder."""
    files = ctx.files_of(who)
    with ctx.making(who, "run", len(body.detectors)) as record_owner:
        started = training.fit(ctx.store(), run_id, body.detectors, files=files)
        record_owner(started["fits"])
    return {"ok": True, **started}


@router.post("/run/{run_id}/frees", response_model=Freed)
def frees(ctx: Studio, who: Sighted, run_id: str):
    """Returns the number of bytes that deleting a run and the fits on its encoder would free."""
    return {"ok": True, **training.act(ctx.store(), run_id, "frees")}


@router.post("/run/{run_id}/repeat", response_model=Repeated)
def repeat(ctx: Studio, who: Sighted, run_id: str):
    """Queues a new run with the same configuration."""
    with ctx.making(who, "run") as record_owner:
        started = training.act(ctx.store(), run_id, "repeat")
        record_owner([started["run"]])
    return {"ok": True, **started}


@router.post("/run/{run_id}/{action}", response_model=RunAction)
def act(ctx: Studio, who: Annotated[str, owner_of("run", "run_id")], run_id: str, action: str, body: Action):
    """Pauses, resumes, cancels, renames, archives, restores or deletes a run, or changes its note."""
    if action == "delete":  # this also deletes the fits on its encoder, which other readers may own
        for fit in runs.list_runs(ctx.store(), runs.get_run(ctx.store(), run_id)["study"], kind="fit"):
            if fit["parent"] == run_id:
                permissions.demand_owner(ctx, who, "run", fit["id"])
    return {"ok": True, **training.act(ctx.store(), run_id, action, body.value, by=who)}


@router.get("/compare", response_model=Compared)
def compare(ctx: Studio, who: Sighted, run: Line):
    """Returns the metrics of up to six runs (ids separated by commas) and the settings in which they differ."""
    chosen = list(dict.fromkeys(run.split(",")))[:COMPARED]
    rows = [runs.get_run(ctx.store(), run) for run in chosen]
    return {
        "ok": True,
        "runs": [{k: r[k] for k in ("id", "name", "method", "status")} for r in rows],
        "series": [series(ctx.store(), run)["series"] for run in chosen],
        "differences": live.differences([r["config"] for r in rows]),
    }

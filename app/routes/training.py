"""Routes of the Training tab. They read and write the store; worker processes do the actual work."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from typing_extensions import NotRequired, TypeAliasType

from app.access import permissions
from app.access.permissions import Sighted, Studio, owner_of
from app.access.turns import DryTurns, heavy
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
    """A training run to start. detectors: options of each detector to fit when it ends, by name."""

    detectors: dict[Name, Settings]
    name: Name = ""


class Fit(Body):
    detectors: dict[Name, Settings]


class Action(Body):
    value: Line = ""


Point = TypeAliasType("Point", tuple[int, float | None])  # step, value; null if the run has none


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
    """archived: 0 or 1."""

    kind: Literal["pretrain", "fit"]
    parent: str | None
    status: str
    created: str
    finished: str | None
    seconds: float | None
    note: str
    archived: int


class RunRow(_Run):
    """A run in the list. left: seconds until it is done; null if no job works on it. archived: 0 or 1."""

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
    """A run with its settings and results. archived: 0 or 1."""

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
    """One run in detail.

    left: seconds until it is done, null if no job works on it. series: every stride-th value since the requested step,
    or since the start if `reset`. last: the newest step.
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
    """The form of a detector.

    lesions: settings by the kind of lesion; empty if the detector does not learn from fake ones.
    """

    title: str
    form: list[Group]
    defaults: Values
    lesions: dict[str, Values]


class TrainingForms(Answer):
    """The forms of a training and of each detector.

    notes: a remark on each preset, shown before it is chosen. archs: backbones of added weights files, if known.
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
    """The measurements of a dry run. memory, free: bytes. Most are missing if the first steps did not fit."""

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
    """The result of an action on a run. status: after pause, cancel and resume. bytes: after delete."""

    status: NotRequired[JobStatus]
    bytes: NotRequired[int]


@router.get("/forms", response_model=TrainingForms)
def forms(ctx: Studio, who: Sighted):
    """Return the forms of a training and of each detector, with presets."""
    return {"ok": True, **training.training_forms(ctx.store())}


@router.post("/check", response_model=Done)
def check(ctx: Studio, who: Sighted, body: TrainingConfig):
    """Check a configuration without starting anything."""
    training.checked(body.config, ctx.store(), ctx.files_of(who))
    return {"ok": True}


@router.post("/dry", response_model=DryRun, dependencies=[heavy(dryrun.LEAST, DryTurns)])
def dry(ctx: Studio, who: Sighted, body: DryRunOf):
    """Time the first steps of a training and measure their memory.

    At most one dry run per reader and two in all run at once; others wait in the order of arrival.
    """
    ready = training.checked(body.config, ctx.store(), ctx.files_of(who)).to_dict()
    return {"ok": True, **dryrun.dry_run(ctx.store().home.path, body.study, ready)}


@router.post("/start", response_model=Started)
def start(ctx: Studio, who: Sighted, body: Training):
    """Queue a training run and the detectors to fit when it ends."""
    files = ctx.files_of(who)
    with ctx.making(who, "run", 1 + len(body.detectors)) as record_owner:
        started = training.start(ctx.store(), body.study, body.config, body.name, body.detectors, files=files)
        record_owner([started["run"], *started["fits"]])
    return {"ok": True, **started}


@router.get("/runs", response_model=RunRows)
def list_runs(ctx: Studio, who: Sighted, study: Name, archived: bool = False):
    """List a study's runs, with their jobs and metrics."""
    return {"ok": True, "runs": live.overview(ctx.store(), study, archived)}


@router.get("/run/{run_id}", response_model=RunDetail)
def show(ctx: Studio, who: Sighted, run_id: str, after: Int = -1, stride: Id = 0):
    """Return one run in detail, with its metrics since step `after`. stride: that of the previous answer."""
    return {"ok": True, **live.detail(ctx.store(), ctx.held(live.Alarms, ctx.store()), run_id, after, stride)}


@router.get("/run/{run_id}/batch.png", **binary("image/png"))
def batch(ctx: Studio, who: Sighted, run_id: str, step: Id = 0):
    """Return a picture of the views in the batch that the training draws at a step."""
    mosaic = ctx.held(BatchStrip, ctx.store()).strip(run_id, step)
    return pixels.picture(mosaic)


@router.post("/run/{run_id}/fit", response_model=StartedFits)
def fit(ctx: Studio, who: Sighted, run_id: str, body: Fit):
    """Queue detectors on a trained encoder."""
    files = ctx.files_of(who)
    with ctx.making(who, "run", len(body.detectors)) as record_owner:
        started = training.fit(ctx.store(), run_id, body.detectors, files=files)
        record_owner(started["fits"])
    return {"ok": True, **started}


@router.post("/run/{run_id}/frees", response_model=Freed)
def frees(ctx: Studio, who: Sighted, run_id: str):
    """Count the bytes that deleting the run and the fits on it would free."""
    return {"ok": True, **training.act(ctx.store(), run_id, "frees")}


@router.post("/run/{run_id}/repeat", response_model=Repeated)
def repeat(ctx: Studio, who: Sighted, run_id: str):
    """Queue a run again with the same configuration."""
    with ctx.making(who, "run") as record_owner:
        started = training.act(ctx.store(), run_id, "repeat")
        record_owner([started["run"]])
    return {"ok": True, **started}


@router.post("/run/{run_id}/{action}", response_model=RunAction)
def act(ctx: Studio, who: Annotated[str, owner_of("run", "run_id")], run_id: str, action: str, body: Action):
    """Pause, resume, cancel, rename, note, archive, restore or delete a run."""
    if action == "delete":  # also deletes the fits on it, which may be another reader's
        for fit in runs.list_runs(ctx.store(), runs.get_run(ctx.store(), run_id)["study"], kind="fit"):
            if fit["parent"] == run_id:
                permissions.demand_owner(ctx, who, "run", fit["id"])
    return {"ok": True, **training.act(ctx.store(), run_id, action, body.value, by=who)}


@router.get("/compare", response_model=Compared)
def compare(ctx: Studio, who: Sighted, run: Line):
    """Compare up to six runs (ids separated by commas): their curves, and the settings in which they differ."""
    chosen = list(dict.fromkeys(run.split(",")))[:COMPARED]
    rows = [runs.get_run(ctx.store(), run) for run in chosen]
    return {
        "ok": True,
        "runs": [{k: r[k] for k in ("id", "name", "method", "status")} for r in rows],
        "series": [series(ctx.store(), run)["series"] for run in chosen],
        "differences": live.differences([r["config"] for r in rows]),
    }

"""The Training tab: its forms, and what is started and changed."""

from __future__ import annotations

from typing import Any

from typing_extensions import NotRequired

from app.routes._answers.medmix import Group, WeakForm
from app.routes._answers.shared import Answer, Done, JobStatus, Values


class Title(Answer):
    title: str


class DetectorForm(Answer):
    """lesions: settings by the kind of lesion; none where the detector does not learn from fake ones."""

    title: str
    form: list[Group]
    defaults: Values
    lesions: dict[str, Values]


class TrainingForms(Answer):
    objectives: dict[str, Title]
    presets: dict[str, Values]
    usual: str
    pasted: dict[str, str]
    form: list[Group]
    encoder: list[Group]
    weak: WeakForm
    strong: dict[str, str]
    detectors: dict[str, DetectorForm]
    lesions: dict[str, str]
    device: str


class DryRun(Answer):
    """memory, free: bytes. Without figures where the first steps did not fit."""

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
    """status: of pause, cancel and resume. bytes: of delete."""

    status: NotRequired[JobStatus]
    bytes: NotRequired[int]


ANSWERS: dict[str, Any] = {
    "GET /api/training/forms": TrainingForms,
    "POST /api/training/check": Done,
    "POST /api/training/dry": DryRun,
    "POST /api/training/start": Started,
    "POST /api/training/run/{run_id}/fit": StartedFits,
    "POST /api/training/run/{run_id}/frees": Freed,
    "POST /api/training/run/{run_id}/repeat": Repeated,
    "POST /api/training/run/{run_id}/{action}": RunAction,
}
BINARY: dict[str, tuple[str, ...]] = {}

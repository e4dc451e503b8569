"""The steps of jobs by name. The function of a step is imported only when the step is executed.

A step's function gets a `Work`, reports progress, and calls `should_stop()` often. If `should_stop()` returns True, the
function saves its state, so that the next call can continue from it, and raises `Stopped`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from core.engine.progress import Report, Stop
from core.studio.db.store import Store


def nothing(values: dict) -> None: ...


def never() -> bool:
    return False


def loading(report: Report) -> Callable[[int, int], None]:
    """Returns an `on_progress` callback for `load_arrays`, which reports how many images are prepared."""

    def on_progress(done: int, total: int) -> None:
        if done % 20 == 0 or done == total:
            report({"message": f"Preparing images: {done} of {total}"})

    return on_progress


@dataclass
class Work:
    """Argument of a step's function. `run` is the id of the run that the step works on, or "" if it needs no run."""

    store: Store
    run: str
    args: dict[str, Any] = field(default_factory=dict)
    report: Report = nothing
    should_stop: Stop = never
    job: int | None = None

    @property
    def device(self) -> str:
        return self.args.get("device", "auto")


class Step(NamedTuple):
    """Kind of step: its function as MODULE:NAME, the message while it runs, and whether it needs the long queue."""

    function: str
    message: str
    long: bool = False


STEPS = {
    "pretrain": Step("core.studio.runs.pipeline:pretrain_step", "Training the encoder", long=True),
    "fit": Step("core.studio.runs.pipeline:fit_step", "Fitting", long=True),
    "weights": Step("core.studio.runs.pipeline:weights_step", "Preparing the weights", long=True),
    "score": Step("core.studio.runs.pipeline:score_step", "Scoring"),
    "evaluate": Step("core.studio.runs.pipeline:evaluate_step", "Evaluating"),
    "compare": Step("core.studio.runs.learnt:compare_step", "Comparing"),
    "tune": Step("core.studio.runs.learnt:tune_step", "Fine-tuning the encoder", long=True),
    "believe": Step("core.studio.review.believe:measured", "Planting lesions"),
    "match": Step("core.studio.medmix.match:matched", "Matching lesions"),
    "embed": Step("core.studio.clusters.step:embed", "Drawing the map"),
    "project": Step("core.studio.clusters.projected:project", "Projecting images"),
    "import": Step("core.studio.incoming.job:import_incoming", "Importing images"),
    "send": Step("core.studio.incoming.dicomweb:send_step", "Sending"),
    "report": Step("core.studio.report.board:report_step", "Making the report", long=True),
}


def load_step(name: str) -> Callable[[Work], Any]:
    """Imports and returns the function of the step `name`."""
    module, function = STEPS[name].function.split(":")
    loaded: Callable[[Work], Any] = getattr(importlib.import_module(module), function)
    return loaded

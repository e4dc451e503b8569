"""The steps of jobs by name. A feature defines a step in its module, and MODULES maps its name to the module:

    @step("embed")
    def embed(work: Work) -> None: ...

    @step("pretrain", long=True)  # others read its results: see queue.py
    def pretrain(work: Work) -> None: ...

A step reads its run and arguments, reports progress, and calls `should_stop()` often. If that returns True, it saves
its state, so that it can resume when it is called again, and raises `Stopped`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from core.engine.progress import Report, Stop
from core.studio.db.store import Store


def nothing(values: dict) -> None: ...


def never() -> bool:
    return False


def loading(report: Report) -> Callable[[int, int], None]:
    """Returns an `on_progress` for `load_arrays` that reports the number of prepared images."""

    def on_progress(done: int, total: int) -> None:
        if done % 20 == 0 or done == total:
            report({"message": f"Preparing images: {done} of {total}"})

    return on_progress


@dataclass
class Work:
    """The context in which a step is executed. run: its run's id, or '' for none; job: the job's id, if any."""

    store: Store
    run: str
    args: dict[str, Any] = field(default_factory=dict)
    report: Report = nothing
    should_stop: Stop = never
    job: int | None = None

    @property
    def device(self) -> str:
        return self.args.get("device", "auto")


MODULES = {  # step: the module that defines it, imported at its first use; the message while it runs
    "pretrain": ("core.studio.runs.pipeline", "Training the encoder"),
    "fit": ("core.studio.runs.pipeline", "Fitting"),
    "weights": ("core.studio.runs.pipeline", "Preparing the weights"),
    "score": ("core.studio.runs.pipeline", "Scoring"),
    "evaluate": ("core.studio.runs.pipeline", "Evaluating"),
    "compare": ("core.studio.runs.learnt", "Comparing"),
    "tune": ("core.studio.runs.learnt", "Fine-tuning the encoder"),
    "believe": ("core.studio.review.believe", "Planting lesions"),
    "match": ("core.studio.medmix.match", "Matching lesions"),
    "embed": ("core.studio.clusters.step", "Drawing the map"),
    "project": ("core.studio.clusters.projected", "Projecting images"),
    "import": ("core.studio.incoming.job", "Importing images"),
    "send": ("core.studio.incoming.dicomweb", "Sending"),
    "report": ("core.studio.report.board", "Making the report"),
}

_STEPS: dict[str, Callable[[Work], Any]] = {}
_LONG: set[str] = set()


def step(name: str, long: bool = False) -> Callable:
    """Registers the decorated function as a step. long: whether it runs in the long queue, one at a time."""

    def add(function):
        _STEPS[name] = function
        if long:
            _LONG.add(name)
        return function

    return add


def is_long(name: str) -> bool:
    """Returns whether a step belongs to the long queue, such as a training or a fit."""
    STEPS[name]
    return name in _LONG


class _Steps(dict):
    """A mapping of names to steps that imports a step's module when it is first used."""

    def __missing__(self, name: str):
        if name not in _STEPS and name in MODULES:
            importlib.import_module(MODULES[name][0])
        if name not in _STEPS:
            raise ValueError(f"there is no job step {name!r}; there are: {', '.join(self.names())}")
        return _STEPS[name]

    def names(self) -> list[str]:
        for module, _ in MODULES.values():
            importlib.import_module(module)
        return sorted(_STEPS)

    def __contains__(self, name: object) -> bool:
        return name in self.names()


STEPS = _Steps()

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
    """The context in which a step is executed. run: '' for a step without a run. job: id of the job, if any."""

    store: Store
    run: str
    args: dict[str, Any] = field(default_factory=dict)
    report: Report = nothing
    should_stop: Stop = never
    job: int | None = None

    @property
    def device(self) -> str:
        return self.args.get("device", "auto")


MODULES = {  # imported when a step is first used, because each needs other libraries
    "pretrain": "core.studio.runs.pipeline",
    "fit": "core.studio.runs.pipeline",
    "weights": "core.studio.runs.pipeline",
    "score": "core.studio.runs.pipeline",
    "evaluate": "core.studio.runs.pipeline",
    "compare": "core.studio.runs.learnt",
    "believe": "core.studio.review.believe",
    "match": "core.studio.medmix.match",
    "embed": "core.studio.clusters.step",
    "project": "core.studio.clusters.projected",
    "import": "core.studio.incoming.job",
    "send": "core.studio.incoming.dicomweb",
    "report": "core.studio.report.board",
}

DOING = {  # messages while a step runs
    "pretrain": "Making the encoder",
    "fit": "Fitting",
    "weights": "Making the weights",
    "score": "Scoring",
    "evaluate": "Evaluating",
    "compare": "Comparing",
    "believe": "Planting lesions",
    "match": "Matching lesions",
    "embed": "Drawing the map",
    "project": "Placing images",
    "import": "Taking in images",
    "send": "Sending",
    "report": "Making the report",
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
            importlib.import_module(MODULES[name])
        if name not in _STEPS:
            raise ValueError(f"a job cannot {name!r}; it can: {', '.join(self.names())}")
        return _STEPS[name]

    def names(self) -> list[str]:
        for module in MODULES.values():
            importlib.import_module(module)
        return sorted(_STEPS)

    def __contains__(self, name: object) -> bool:
        return name in self.names()


STEPS = _Steps()

"""The loop of all training runs: steps, progress, checkpoints, and what happens if a run is stopped or diverges."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.engine.progress import Report, Stop, Stopped
from core.engine.tensors import keep_freed_memory
from core.engine.training.base import Diverged, Training
from core.engine.training.checkpoint import Checkpoints


def run(
    training: Training,
    checkpoints: Checkpoints | None = None,
    report: Report | None = None,
    should_stop: Stop | None = None,
    *,
    last: int | None = None,
    after: Callable[[], dict[str, Any]] | None = None,
) -> None:
    """Runs `training` until step `last` and saves a checkpoint whenever one is due.

    The caller must write the final checkpoint once all results are on disk. If the run diverges, its history and the
    reason are saved, and it cannot be resumed.

    Args:
        checkpoints: Writer of the checkpoints, or None to save none.
        report: Function that is called after each step with a dictionary: step, steps and the step's metrics.
        should_stop: Function that returns True if the run must stop.
        last: Number of the last step. Defaults to the last step of the run.
        after: Function that is called after each step and returns additional metrics of the step.

    Raises:
        Stopped: If `should_stop` returns True, after a checkpoint is saved.
        Diverged: If the loss or the weights are not finite, or if the training sets `ended`.
    """
    keep_freed_memory()
    training.report, training.should_stop = report, should_stop
    last = training.steps if last is None else min(last, training.steps)
    try:
        while training.step < last:
            if should_stop is not None and should_stop():
                raise Stopped(
                    f"{training.title} was stopped after {training.step} of {training.steps} steps; "
                    "it resumes there when it is started again"
                )
            line = _step(training, after)
            if checkpoints is not None:
                checkpoints.lines.append(line)
            if report is not None:
                report(line)
            if line["loss"] is None:
                raise training.diverged("its loss is")
            if training.ended:
                raise Diverged(training.ended)
            if checkpoints is not None:
                checkpoints.save_if_due(training)
        training.check()
    except Stopped:
        if checkpoints is not None:
            checkpoints.save(training)
        raise
    except Diverged as error:
        if checkpoints is not None:
            checkpoints.give_up(training, str(error))
        raise


def run_resumable(
    training: Training,
    folder: Path | None,
    identity: dict[str, Any],
    report: Report | None = None,
    should_stop: Stop | None = None,
) -> Checkpoints | None:
    """Runs `training` to its end, starting from the checkpoint in `folder` if it has the same `identity`.

    Returns the Checkpoints with which the caller must save the final checkpoint, or None if `folder` is None. Raises
    the same errors as `run`.
    """
    checkpoints = None if folder is None else Checkpoints(folder, identity)
    if checkpoints is not None:
        checkpoints.resume(training)
    run(training, checkpoints, report, should_stop)
    return checkpoints


def _step(training: Training, after: Callable[[], dict[str, Any]] | None) -> dict[str, Any]:
    """Runs one step and returns its line of the history."""
    started = time.perf_counter()
    training.prepare()
    numbers = training.advance()
    if "seen" in numbers:
        numbers["images_per_second"] = numbers.pop("seen") / (time.perf_counter() - started)
    if after is not None and math.isfinite(numbers["loss"]):
        numbers |= after()
    return {name: _plain(value) for name, value in {"step": training.step, "steps": training.steps, **numbers}.items()}


def _plain(value: Any) -> Any:
    """Replaces NaN and infinity, which JSON does not support, by None."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""Steps of a run that call the engine: pre-training, fit, scoring and evaluation."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.engine.backbones.config import EncoderConfig
from core.engine.config import Config
from core.engine.objectives.config import PretrainConfig
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS, OBJECTIVES
from core.engine.tensors import pick_device
from core.studio.db import journal
from core.studio.db.store import Store, now
from core.studio.jobs import orphans, worker
from core.studio.jobs import queue as jobs
from core.studio.jobs.steps import Report, Stop, Work, never, nothing
from core.studio.runs import marks, weights
from core.studio.runs import records as runs
from core.studio.runs.results import evaluate_both, has_known_test
from core.studio.runs.scoring import score_new, score_run
from core.studio.runs.sides import closer_side
from core.studio.runs.training import fit_detector, train_encoder

if TYPE_CHECKING:
    from core.engine.detectors.base import Detector

UNTRAINED = "untrained"


def create_pretrain(store: Store, study: str, config: PretrainConfig | dict, name: str | None = None) -> str:
    """Creates a pre-training run with the configuration `config`; returns the run's id.

    If the configuration pastes annotated lesions, their mask ids are stored. Raises ValueError if there are no such
    masks.
    """
    checked = config if isinstance(config, PretrainConfig) else PretrainConfig.from_dict(config)
    OBJECTIVES.get(checked.objective)
    donors = (
        {"marks": marks.as_donors(store, study)} if checked.strong == "medmix" and checked.medmix.from_marks else {}
    )
    return runs.create_run(store, study, "pretrain", checked.objective, checked.to_dict() | donors, name=name)


def create_untrained(
    store: Store, study: str, size: int, seed: int = 0, init: str = "random", arch: str = "resnet18"
) -> str:
    """Creates a run of zero epochs, whose encoder keeps its initial weights; returns the run's id.

    Raises ValueError if the size or the encoder is invalid.
    """
    PretrainConfig(size=size, encoder=EncoderConfig(arch=arch, init=init))
    config = {"size": size, "epochs": 0, "seed": seed, "encoder": {"arch": arch, "init": init, "seed": seed}}
    method = {"random": UNTRAINED, "imagenet": "imagenet", "auto": "auto"}.get(init, "weights")  # a file or a run
    return runs.create_run(store, study, "pretrain", method, config)


def create_fit(
    store: Store,
    parent: str,
    detector: str,
    config: Config | dict | None = None,
    name: str | None = None,
    size: int = 0,
) -> str:
    """Creates a run that fits a detector on the encoder of run `parent`; returns the new run's id.

    config: Configuration of the detector, as an object or a dictionary, or None for default settings.
    size: Side length of the detector's images in pixels. Defaults to the encoder's (readings.size_of), or to a
        larger one if the encoder has the option `fit_closer` (sides.closer_side).
    """
    kind = DETECTORS.get(detector).Config
    checked = config if isinstance(config, Config) else kind.from_dict(config or {})
    encoder = runs.get_run(store, parent)
    study = encoder["study"]
    side = size or closer_side(store, study, encoder["config"])
    setting = {"size": side} if side else {}
    return runs.create_run(store, study, "fit", detector, {**checked.to_dict(), **setting}, parent, name)


class Timed:
    """Context manager that updates a run's status (running, then done, stopped or failed) and its running time."""

    def __init__(self, store: Store, run_id: str, device: str):
        self.store, self.run_id, self.device = store, run_id, device
        self.status = "done"

    def __enter__(self) -> Timed:
        self.start = time.monotonic()
        self.before = runs.get_run(self.store, self.run_id)["seconds"] or 0.0
        runs.update_run(self.store, self.run_id, status="running", device=self.device)
        orphans.sign(runs.run_folder(self.store, self.run_id))
        return self

    def __exit__(self, kind, error, trace) -> None:
        if kind is not None:
            self.status = "stopped" if issubclass(kind, (Stopped, KeyboardInterrupt)) else "failed"
        seconds = self.before + time.monotonic() - self.start
        runs.update_run(self.store, self.run_id, status=self.status, seconds=seconds, finished=now())
        orphans.leave(runs.run_folder(self.store, self.run_id))


def pretrain_run(
    store: Store, run_id: str, device: str = "auto", should_stop: Stop = never, report: Report = nothing
) -> dict:
    """Trains or resumes the encoder of a run; returns its row. Raises Stopped if `should_stop` returns True."""
    run = runs.get_run(store, run_id)
    torch_device = pick_device(device)
    folder = runs.run_folder(store, run_id)
    with Timed(store, run_id, str(torch_device)) as timed:
        if not run["config"].get("epochs"):
            _save_untrained(run, folder)
            weights.seal(folder)
            return runs.get_run(store, run_id)
        result, images = train_encoder(store, run, torch_device, should_stop, report)
        weights.seal(folder)
        summary = {"message": result.message, "collapsed": bool(result.collapsed), "images": images}
        runs.update_run(store, run_id, summary={**run["summary"], **summary})
        if result.message:
            journal.log(store, run_id, result.message)
        timed.status = "collapsed" if result.collapsed else "done"
    return runs.get_run(store, run_id)


def _save_untrained(run: dict, folder) -> None:
    from core.engine.backbones.config import EncoderConfig
    from core.engine.backbones.encoder import build_encoder, save_encoder

    encoder = build_encoder(EncoderConfig.from_dict(run["config"]["encoder"]))
    save_encoder(encoder, folder, {"epochs": 0})


def fit_run(
    store: Store, run_id: str, device: str = "auto", should_stop: Stop = never, report: Report = nothing
) -> dict:
    """Fits a run's detector to the study's normal training images; returns the run's row.

    Raises Stopped if `should_stop` returns True.
    """
    run = runs.get_run(store, run_id)
    torch_device = pick_device(device)
    with Timed(store, run_id, str(torch_device)):
        for needed in filter(None, (run["parent"], run["config"].get("base_run"))):
            make_weights(store, needed, device, should_stop, report)
        save_fit(store, run_id, *fit_detector(store, run, torch_device, should_stop, report))
    return runs.get_run(store, run_id)


def save_fit(store: Store, run_id: str, fitted: Detector, images: int) -> None:
    """Saves a fitted detector and the number of its training images in the run, and logs the detector's remarks."""
    folder = runs.run_folder(store, run_id)
    fitted.save(folder)
    weights.seal(folder)
    for remark in getattr(fitted, "remarks", ()):
        journal.log(store, run_id, remark)
    rule = getattr(fitted, "rule", None)
    summary = {"images": images, **({"rule": rule.to_dict()} if isinstance(rule, Config) else {})}
    runs.update_run(store, run_id, summary={**runs.get_run(store, run_id)["summary"], **summary})


def make_weights(
    store: Store, run_id: str, device: str = "auto", should_stop: Stop = never, report: Report = nothing
) -> None:
    """Recreates the weights of a finished run that was imported without them; scores and metrics are not changed.

    Raises ValueError for a trained encoder, which has to be trained again.
    """
    run, folder = runs.get_run(store, run_id), runs.run_folder(store, run_id)
    if run["status"] != "done" or weights.has_weights(store, run_id):
        return
    if run["kind"] == "fit":
        fit_detector(store, run, pick_device(device), should_stop, report)[0].save(folder)
    elif run["config"].get("epochs"):
        weights.check(store, run_id)
    else:
        _save_untrained(run, folder)
    weights.seal(folder)


def chain(
    pretrain: str | None = None, fits: Sequence[str] = (), score: bool = True, evaluate: bool = True, **args
) -> list[dict]:
    """Lists the steps of a job: train run `pretrain`; fit, score and evaluate the runs `fits`. Steps get `args`."""
    steps = [{"step": "pretrain", "run": pretrain, "args": args}] if pretrain else []
    for run in fits:
        names = ["fit"] + ["score"] * score + ["evaluate"] * (score and evaluate)
        steps += [{"step": name, "run": run, "args": args} for name in names]
    return steps


def begin(store: Store, study: str, config: dict, name: str | None, device: str) -> tuple[str, int]:
    """Resumes the newest unfinished pre-training run with this configuration, or creates a new run.

    Returns the run's id and the id of its queued job. If the same command is repeated, by hand or by torchrun, training
    therefore continues from the last checkpoint.
    """
    from core.engine.training import checkpoint

    stored = json.loads(json.dumps(config))
    for row in reversed(runs.list_runs(store, study, "pretrain")):
        same = row["config"] == stored and name in (None, row["name"])
        job = worker.unfinished(store, row["id"]) if same else None
        if job is not None and not checkpoint.has_diverged(runs.run_folder(store, row["id"])):
            jobs.resume(store, job, start=False)
            return row["id"], job
    run = create_pretrain(store, study, config, name)
    return run, jobs.submit(store, chain(run, device=device), start=False)


def pretrain_step(work: Work) -> None:
    pretrain_run(work.store, work.run, work.device, work.should_stop, work.report)


def fit_step(work: Work) -> None:
    fit_run(work.store, work.run, work.device, work.should_stop, work.report)


def weights_step(work: Work) -> None:
    make_weights(work.store, work.run, work.device, work.should_stop, work.report)


def score_step(work: Work) -> None:
    """Scores the cases, then computes two reading aids: steadiness and the nearest training images.

    The argument `steady` of the step decides whether steadiness is computed (by default, only if few cases are scored).
    If the argument `aids` is False, both aids are skipped; nearest training images are then computed on request.
    """
    from core.studio.runs import certainty, explained

    args = (work.store, work.run, work.device, work.should_stop, work.report)
    score_run(*args)
    score_new(*args)  # cases that were imported during scoring
    if not work.args.get("aids", True):
        return
    explained.add_nearest(*args)
    if certainty.wanted(work.store, work.run, work.args.get("steady")):
        certainty.add_steadiness(*args)


def evaluate_step(work: Work) -> None:
    """Evaluates the run and the baseline, with and without the region of interest, if test labels are known."""
    if not has_known_test(work.store, runs.get_run(work.store, work.run)["study"]):
        work.report({"message": "Not evaluated: the study has no labelled normal and abnormal test images"})
        return
    protocols = work.args.get("protocols", ["held-out"])
    for i, protocol in enumerate(protocols):
        work.report({"step": i, "steps": len(protocols)})
        evaluate_both(work.store, work.run, protocol, work.args.get("masks", ""))

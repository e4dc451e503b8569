"""Calls the engine to pre-train a run's encoder on its study, and to fit a run's detector on that encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from core.engine import processes
from core.engine.detectors.base import Detector, FitContext
from core.engine.objectives.config import PretrainConfig
from core.engine.registry import DETECTORS
from core.engine.rows import rows_of
from core.studio.db.store import Store
from core.studio.ingest.donors import pool_of
from core.studio.ingest.patients import patients_of
from core.studio.ingest.studies import load_arrays
from core.studio.jobs.steps import Report, Stop, loading, never, nothing
from core.studio.runs import marks, weights
from core.studio.runs import records as runs
from core.studio.runs.marks import marks_of
from core.studio.runs.pooled import kept
from core.studio.runs.readings import size_of

if TYPE_CHECKING:
    import torch

    from core.engine.training.pretrain import PretrainResult


def train_encoder(
    store: Store, run: dict, device: torch.device, should_stop: Stop = never, report: Report = nothing
) -> tuple[PretrainResult, int]:
    """Pre-trains a run's encoder on its study's normal images; returns the result and the number of images.

    If several processes train together, the first process prepares the images and the others wait.
    """
    from core.engine.training.pretrain import pretrain
    from core.engine.training.pretraining import Data

    config = PretrainConfig.from_dict(runs.settings_of(run["config"]))
    arrays = processes.first_before_others(lambda: load_arrays(store, run["study"], config.size, loading(report)))
    train, holdout = arrays.index("train"), arrays.index("holdout", label="normal")
    if not len(train):
        raise ValueError(f"study {run['study']} has no normal training images: import some")
    pool = processes.first_before_others(lambda: pool_of(store, config, loading(report)))
    marked = marks.donors_of(store, run, config.size)
    result = pretrain(
        Data(rows_of(arrays.images, train), rows_of(arrays.roi, train), *pool, marked),
        config,
        runs.run_folder(store, run["id"]),
        Data(rows_of(arrays.images, holdout), rows_of(arrays.roi, holdout)) if len(holdout) else None,
        device=device,
        report=report,
        should_stop=should_stop,
    )
    return result, len(train)


def fit_detector(
    store: Store, run: dict, device: torch.device, should_stop: Stop = never, report: Report = nothing,
    first: str | None = None,
) -> tuple[Detector, int]:  # fmt: skip
    """Fits a run's detector; returns the detector and the number of training images.

    Checkpoints are saved in the run's folder. If `first` is the id of a run that learned from the same annotations
    without fine-tuning, the fit continues from that run. Raises ValueError if the encoder is not trained.
    """
    from core.engine.backbones.encoder import load_encoder
    from core.engine.tensors import keep_freed_memory

    keep_freed_memory()
    parent = runs.get_run(store, run["parent"])
    if parent["status"] not in ("done", "collapsed"):
        raise ValueError(f"the encoder {parent['id']} is {parent['status']}: it must be trained before a fit")
    weights.check(store, parent["id"])
    detector, size = DETECTORS.get(run["method"]), size_of(store, run)
    arrays = load_arrays(store, run["study"], size, loading(report))
    train = arrays.index("train")
    settings = {k: _folder_of(store, k, v) for k, v in runs.settings_of(run["config"]).items() if k != "size"}
    images = rows_of(arrays.images, train)
    context = FitContext(
        rows_of(arrays.roi, train),
        device,
        report,
        should_stop,
        runs.run_folder(store, run["id"]),
        patients_of(store, run["study"], arrays.case_ids[train]),
        marks_of(store, run, size),
        detector.load(runs.run_folder(store, first), device) if first else None,
    )
    encoder = load_encoder(runs.run_folder(store, parent["id"]), device)
    with kept(store, run["study"], images):
        fitted = detector.fit(encoder, images, detector.Config.from_dict(settings), context)
    return fitted, len(train)


def _folder_of(store: Store, setting: str, value: Any) -> Any:
    """Returns the folder of the run whose id is `value`, for settings that name a run, else `value`."""
    if setting == "base_run" and value:
        weights.check(store, value)
        return str(runs.run_folder(store, value))
    if not setting.endswith("_encoder") or not isinstance(value, str) or not runs.exists(store, value):
        return value
    run = runs.get_run(store, value)
    if run["kind"] != "pretrain" or run["status"] not in ("done", "collapsed"):
        raise ValueError(f"{setting} must be a finished pre-training run, not {value} ({run['kind']}, {run['status']})")
    return str(runs.run_folder(store, value))

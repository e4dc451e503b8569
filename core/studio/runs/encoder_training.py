"""The engine's pre-training on the images of a run's study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.engine import processes
from core.engine.objectives.config import PretrainConfig
from core.engine.rows import rows_of
from core.studio.db.store import Store
from core.studio.ingest.donors import pool_of
from core.studio.ingest.studies import load_arrays
from core.studio.jobs.steps import Report, Stop, loading, never, nothing
from core.studio.runs import marks
from core.studio.runs import records as runs

if TYPE_CHECKING:
    import torch

    from core.engine.training.pretrain import PretrainResult


def train_encoder(
    store: Store, run: dict, device: torch.device, should_stop: Stop = never, report: Report = nothing
) -> tuple[PretrainResult, int]:
    """Pre-trains a run's encoder on its study's normal images; returns the result and the number of images.

    If several processes train together, the first prepares the images and the others wait for it.
    """
    from core.engine.training.pretrain import pretrain
    from core.engine.training.pretraining import Data

    config = PretrainConfig.from_dict(runs.settings_of(run["config"]))
    arrays = processes.first_before_others(lambda: load_arrays(store, run["study"], config.size, loading(report)))
    train, holdout = arrays.index("train"), arrays.index("holdout", label="normal")
    if not len(train):
        raise ValueError(f"study {run['study']} has no normal images to train on")
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

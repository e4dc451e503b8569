"""Reproduces the images that a training sees at a step, because all its random draws depend only on (seed, step)."""

from __future__ import annotations

import threading

import numpy as np
import torch

from core.engine.objectives.config import PretrainConfig
from core.engine.rows import rows_of
from core.engine.tensors import to_pixels
from core.engine.training.pretraining import Data, Pretraining
from core.studio.db.store import Store
from core.studio.ingest.donors import pool_of
from core.studio.ingest.studies import load_arrays
from core.studio.medmix.preview import one_thread
from core.studio.runs import records as runs
from core.studio.runs.marks import donors_of


class BatchStrip:
    """Draws the augmented views in a training's batches as strips of thumbnails.

    The trainer of the last run is cached, so that further strips of this run are quick.
    """

    def __init__(self, store: Store):
        self._store = store
        self._run: str | None = None
        self._trainer: Pretraining | None = None
        self._lock = threading.Lock()

    def strip(self, run_id: str, step: int, count: int = 8, side: int = 64) -> np.ndarray:
        """Draws up to `count` views per class of a step's batch, A_0 on top: uint8 ((k+1) side, count side, 3)."""
        with self._lock, one_thread():
            trainer = self._open(run_id)
            trainer.step = max(0, min(step, trainer.steps - 1))
            views = trainer.views()
            labels = views.labels
            rows = []
            for n in range(int(labels.max()) + 1):
                chosen = torch.nonzero(labels == n)[:count, 0]
                some = views.images[chosen]
                if some.shape[-1] != side:
                    some = torch.nn.functional.interpolate(some, (side, side), mode="area")
                tiles = to_pixels(some)
                row = np.zeros((side, count * side, 3), np.uint8)
                row[:, : len(tiles) * side] = np.concatenate(list(tiles), 1)
                rows.append(row)
            return np.concatenate(rows)

    def _open(self, run_id: str) -> Pretraining:
        if self._run != run_id or self._trainer is None:
            run = runs.get_run(self._store, run_id)
            if run["kind"] != "pretrain" or not run["config"].get("epochs"):
                raise ValueError(f"{run_id} is no training, so it has no batches")
            config = PretrainConfig.from_dict(runs.settings_of(run["config"]))
            config = config.replace(**{"encoder.init": "random"})  # the views do not depend on the weights
            arrays = load_arrays(self._store, run["study"], config.size)
            train = arrays.index("train")
            pool = pool_of(self._store, config)
            marked = donors_of(self._store, run, config.size)
            data = Data(rows_of(arrays.images, train), rows_of(arrays.roi, train), *pool, marked)
            self._run, self._trainer = run_id, Pretraining(config, data, torch.device("cpu"))
        return self._trainer

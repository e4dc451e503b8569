"""Loads normal images of another study, from which MedMix cuts lesion patches if its donor is `foreign`."""

from __future__ import annotations

import numpy as np

from core.engine.augment.config import MedMixConfig
from core.engine.objectives.config import PretrainConfig
from core.engine.rows import rows_of
from core.studio.db.store import Store
from core.studio.ingest.cache import Progress, load_arrays

MOST = 64  # maximum number of images, evenly spaced over the normals of the study


def check_pool(store: Store, config: MedMixConfig) -> None:
    """Raises ValueError if the study from which MedMix cuts patches is unknown or has no normal training images."""
    study = config.pooled
    if study and store.one("SELECT 1 FROM studies WHERE id = ?", [study]) is None:
        raise ValueError(f"donor_study: unknown study {study!r}; choose another one to cut from, or none")
    normal = "SELECT 1 FROM cases WHERE study = ? AND split = 'train' AND label = 'normal' LIMIT 1"
    if study and store.one(normal, [study]) is None:
        raise ValueError(f"donor_study: {study!r} has no normal training images to cut from; choose another study")


def pool_of(
    store: Store, config: PretrainConfig, on_progress: Progress | None = None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Returns the result of `pool_at` for a pre-training run, or (None, None) if the run uses no other study."""
    if config.strong != "medmix" or not config.medmix.pooled:
        return None, None
    return pool_at(store, config.medmix, config.size, on_progress)


def pool_at(
    store: Store, config: MedMixConfig, size: int, on_progress: Progress | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns (up to MOST normal images `(M, size, size, 3)` to cut from, regions of interest `(M, size, size)`)."""
    check_pool(store, config)
    arrays = load_arrays(store, config.pooled, size, on_progress)
    train = arrays.index("train", label="normal")
    chosen = train[np.unique(np.linspace(0, len(train) - 1, min(MOST, len(train))).astype(int))]
    return np.array(rows_of(arrays.images, chosen)), np.array(rows_of(arrays.roi, chosen))


def donor_studies(store: Store) -> list[dict]:
    """Returns the studies with normal training images, except those in the bin, as [{"id", "name"}]."""
    return store.query(
        "SELECT id, name FROM studies WHERE binned IS NULL "
        "AND EXISTS (SELECT 1 FROM cases WHERE study = studies.id AND split = 'train' "
        "AND label = 'normal') ORDER BY created, id"
    )

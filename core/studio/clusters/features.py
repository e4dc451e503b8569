"""Features of a map's points at an epoch of a run, computed once and cached by content in the home."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from core.engine.files import mapped
from core.engine.losses.centred import centred
from core.engine.rows import Rows
from core.studio.clusters.config import MapConfig
from core.studio.clusters.points import PointImages, PointSet
from core.studio.db import seals
from core.studio.db.home import Home
from core.studio.db.store import NotFound, Store
from core.studio.runs import pooled
from core.studio.runs.weights import Snapshot, snapshots

CENTRES = "centres.safetensors"  # file of the class centres in an encoder's folder, if a training has saved them
VERSION = 2  # increase it if the same inputs give different features


def chosen(store: Store, run: dict, config: MapConfig) -> list[Snapshot]:
    """Returns the snapshots of a map. Raises NotFound, which lists the available epochs, if one is missing."""
    have = {s.epoch: s for s in snapshots(store, run)}
    if not have:
        raise NotFound(f"run {run['id']} has saved no encoder yet: train it first")
    missing = [e for e in config.epochs if e not in have]
    if missing:
        listed = ", ".join(map(str, have))
        raise NotFound(f"run {run['id']} has no snapshot of epoch {missing[0]}; there are: {listed}")
    return [have[e] for e in config.epochs] if config.epochs else [have[max(have)]]


def features_key(snapshot: Snapshot, points: PointSet, config: MapConfig) -> str:
    content = f"{VERSION} {snapshot.digest} {points.key} {config.encoded}"
    return hashlib.sha256(content.encode()).hexdigest()[:24]


def has_centres(snapshot: Snapshot) -> bool:
    """Returns whether class centres were saved with an encoder; the encoder of a run without training has none."""
    return (snapshot.folder / CENTRES).exists()


def centres_of(snapshot: Snapshot) -> np.ndarray | None:
    """Loads the class centres c_0 to c_k saved with an encoder: float32 (k+1, 128), or None."""
    if not has_centres(snapshot):
        return None
    return load_file(snapshot.folder / CENTRES)["centres"].astype(np.float32)


def saved_centres(snapshot: Snapshot) -> np.ndarray:
    """Loads the class centres float32 (k+1, 128). Raises ValueError if the encoder was saved without them."""
    centres = centres_of(snapshot)
    if centres is None:
        raise ValueError("this encoder was saved without class centres: choose projected or backbone features")
    return centres


def features_of(
    store: Store,
    snapshot: Snapshot,
    points: PointSet,
    images: Rows,
    config: MapConfig,
    *,
    device="cpu",
    report: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> np.ndarray:
    """Returns the features `config.feature` of all points, float32 (N, D), from the cache or from the encoder."""
    from core.engine.backbones import embed
    from core.engine.backbones.encoder import load_encoder

    file = store.home.clusters / "features" / f"{features_key(snapshot, points, config)}.npy"

    def make(path: Path) -> None:
        encoder, pictures = load_encoder(snapshot.folder, device), PointImages(points, images)
        with pooled.kept(store, points.study):
            values = embed.encode(
                encoder, pictures, config.encoded, device=device, report=report, should_stop=should_stop
            )
        np.save(path, values)

    return finish(seals.built_array(file, make), snapshot, points, config)


def finish(features: np.ndarray, snapshot: Snapshot, points: PointSet, config: MapConfig) -> np.ndarray:
    """Returns cached features, centred if the map shows centred ones."""
    if config.feature != "centred":
        return np.asarray(features)
    centres = saved_centres(snapshot)
    return centred(np.asarray(features), np.minimum(points.lesions, len(centres) - 1), centres)


def kept_features(home: Home, key: str) -> np.ndarray | None:
    """Opens cached features by their key as a memory map; None if there are none."""
    file = home.clusters / "features" / f"{key}.npy"
    return mapped(file) if file.exists() else None

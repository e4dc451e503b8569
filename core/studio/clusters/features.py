"""Features of a map's points at one epoch of a run, of whole images or of places in them.

Features are computed once, then kept by content in the home's cache. Places are what PaDiM sees: some cells of a
lattice over each image of a point set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from safetensors.numpy import load_file

from core.engine.losses.centred import centred
from core.engine.rows import Rows
from core.studio.clusters.config import MapConfig
from core.studio.clusters.points import Patches, PointImages, PointSet
from core.studio.db import seals
from core.studio.db.home import Home
from core.studio.db.store import NotFound, Store
from core.studio.runs.snapshots import Snapshot, snapshots

CENTRES = "centres.safetensors"  # beside an encoder, where a training has saved them
VERSION = 1  # raise it when the same inputs give other features


def chosen(store: Store, run: dict, config: MapConfig) -> list[Snapshot]:
    """Returns the snapshots that a map of `config` shows. Raises NotFound, which says which epochs there are."""
    have = {s.epoch: s for s in snapshots(store, run)}
    if not have:
        raise NotFound(f"run {run['id']} has saved no encoder yet: train it first")
    missing = [e for e in config.epochs if e not in have]
    if missing:
        listed = ", ".join(map(str, have))
        raise NotFound(f"run {run['id']} has no snapshot of epoch {missing[0]}; there are: {listed}")
    return [have[e] for e in config.epochs] if config.epochs else [have[max(have)]]


def features_key(snapshot: Snapshot, points: PointSet, config: MapConfig) -> str:
    kind = {"centred": "projected"}.get(config.feature, config.feature)
    content = f"{VERSION} {snapshot.digest} {points.key} {kind}"
    if kind == "patch":
        content += f" {config.grid} {config.patches} {config.seed}"
    return hashlib.sha256(content.encode()).hexdigest()[:24]


def has_centres(snapshot: Snapshot) -> bool:
    """Says whether class centres were saved with an encoder; with pretrained weights there are none."""
    return (snapshot.folder / CENTRES).exists()


def centres_of(snapshot: Snapshot) -> np.ndarray | None:
    """Loads the class centres c_0 .. c_k saved with an encoder: float32 (k+1, 128), or None."""
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
    home: Home,
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

    file = home.clusters / "features" / f"{features_key(snapshot, points, config)}.npy"
    if file.exists() and not seals.problem(file):
        values = np.load(file, mmap_mode="r")
    else:
        kind = "projected" if config.feature == "centred" else config.feature
        encoder = load_encoder(snapshot.folder, device)
        shared_kwargs = {"device": device, "report": report, "should_stop": should_stop}
        if points.patches is not None:
            times = points.patches.place.shape[1]
            whole = PointImages(points, images, every=times)
            values = embed.patch_features(
                encoder, whole, points.patches.place, grid=points.patches.grid, **shared_kwargs
            )
            values = values.reshape(len(points), -1)
        else:
            values = embed.encode(encoder, PointImages(points, images), kind, **shared_kwargs)
        _save(file, values)
    return finish(values, snapshot, points, config)


def finish(features: np.ndarray, snapshot: Snapshot, points: PointSet, config: MapConfig) -> np.ndarray:
    """Centres kept features f where the map asks for it: a subtraction, done when they are read."""
    if config.feature != "centred":
        return np.asarray(features)
    centres = saved_centres(snapshot)
    return centred(np.asarray(features), np.minimum(points.lesions, len(centres) - 1), centres)


def kept_features(home: Home, key: str) -> np.ndarray | None:
    """Opens cached features by their key as a memory map, for the page's process; None if there are none."""
    file = home.clusters / "features" / f"{key}.npy"
    return np.load(file, mmap_mode="r") if file.exists() else None


def _save(file: Path, values: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{id(values)}.part")
    with open(partial, "wb") as stream:
        np.save(stream, values)
    seals.seal(partial)
    seals.seal_of(partial).replace(seals.seal_of(file))
    partial.replace(file)


NAMES = ("no lesion", "lesion", "\u2013")


def covered(mask: np.ndarray, grid: int) -> np.ndarray:
    """Computes how much of each cell of a grid a mask covers: (S, S) of 0 and 1 -> float32 (grid * grid,)."""
    return cv2.resize(mask.astype(np.float32), (grid, grid), interpolation=cv2.INTER_AREA).ravel()


def choose(points: PointSet, arrays, config: MapConfig) -> Patches:
    """Draws each image's places by the map's seed, inside the region of interest; half of them in a lesion, if any.

    A cell is in a lesion if half of it is; a lesion smaller than that has the cell that it covers most.
    """
    rng = np.random.default_rng(config.seed)
    place = np.zeros((len(points), config.patches), np.int64)
    lesion = np.zeros_like(place)
    unlabelled = np.array([g.startswith(("Abnormal", "Unlabelled")) for g in points.groups])[points.group]
    for i in range(len(points)):
        row, mixed = int(points.row[i]), int(points.mixed[i])
        mask = points.mixed_mask(mixed) if mixed >= 0 else arrays.masks[row] if arrays.has_mask[row] else None
        share = covered(np.asarray(mask), config.grid) if mask is not None else np.zeros(config.grid**2)
        inside = share >= min(0.5, share.max()) if share.max() > 0 else np.zeros(len(share), bool)
        inside_roi = covered(np.asarray(arrays.roi[row]), config.grid) >= 0.5
        inside_roi |= inside
        if not inside_roi.any():
            inside_roi[:] = True
        within, without = rng.permutation(np.flatnonzero(inside)), rng.permutation(np.flatnonzero(inside_roi & ~inside))
        half = within[: max(config.patches // 2, config.patches - len(without))]
        picked = np.concatenate([half, without])[: config.patches]
        picked = np.resize(picked, config.patches)  # a tiny region of interest gives some cell twice
        place[i], lesion[i] = picked, inside[picked]
        if mask is None and unlabelled[i]:
            lesion[i] = -1
    return Patches(config.grid, place, lesion)


def spread(points: PointSet, patches: Patches) -> PointSet:
    """Returns the point set with one point per place: N images become N x P points, image by image."""
    times = patches.place.shape[1]
    columns: dict[str, Any] = {c: np.repeat(getattr(points, c), times) for c in PointSet.COLUMNS}
    return replace(points, **columns, patches=patches, place=patches.place.ravel(), in_lesion=patches.lesion.ravel())

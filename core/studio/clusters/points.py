"""Images of a map: real images by split and label, and MedMix versions of normal images (A_n: with n pasted lesions).

A point set is made once per (study, image size, MedMix options, PointsConfig) and cached in the home, so that all
epochs, all runs of the same configuration and all maps show the same images.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from safetensors.numpy import load_file

from core.engine import files
from core.engine.files import mapped
from core.engine.losses.centred import centred
from core.engine.rows import Rows
from core.studio.clusters.config import MapConfig, PointsConfig
from core.studio.db import seals
from core.studio.db.home import Home
from core.studio.db.store import NotFound, Store
from core.studio.runs import pooled
from core.studio.runs.weights import Snapshot, snapshots

REAL = ("Normal, training", "Normal, held out", "Normal, test", "Abnormal, test", "Unlabelled, test")
BATCH = 32  # images per MedMix batch; lesions are cut from other images of the batch (Sec. MedMix)
_SUBSCRIPT = str.maketrans("0123456789", "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089")


def group_name(lesions: int) -> str:
    """Returns the name of the class A_n (n = `lesions` pasted lesions) on the map and in its legend."""
    return f"A{str(lesions).translate(_SUBSCRIPT)}, {lesions} pasted lesion{'s' if lesions > 1 else ''}"


@dataclass
class PointSet:
    """The N images of a map. All columns are arrays (N,).

    case_id: Id of the case.
    row: Row of the case's image in the study's arrays.
    lesions: Number of pasted lesions, or 0 for a real image.
    mixed: Index among the MedMix images, or -1 for a real image.
    group: Index into `groups`, the names of the classes.
    """

    key: str
    study: str
    size: int
    groups: list[str]
    case_id: np.ndarray
    row: np.ndarray
    lesions: np.ndarray
    group: np.ndarray
    mixed: np.ndarray
    folder: Path

    COLUMNS: ClassVar = ("case_id", "row", "lesions", "group", "mixed")

    def __len__(self) -> int:
        return len(self.row)

    def classes(self) -> np.ndarray:
        """Returns the pre-training class of each point, (N,).

        Classes are 0 for training and held-out normal images, n for MedMix images of A_n, and -1 for test images.
        """
        is_test = np.isin(self.group, [self.groups.index(g) for g in REAL[2:] if g in self.groups])
        return np.where(is_test, -1, self.lesions)

    def truth(self) -> np.ndarray:
        """Returns labels (N,): 0 for normal test images, 1 for abnormal test images, -1 for all other images."""
        out = np.full(len(self), -1)
        for value, name in ((0, REAL[2]), (1, REAL[3])):
            if name in self.groups:
                out[self.group == self.groups.index(name)] = value
        return out

    def mixed_images(self) -> np.ndarray:
        """Opens the MedMix images as a memory map, uint8 (M, S, S, 3)."""
        return np.load(self.folder / "mixed.npy", mmap_mode="r")

    def mixed_mask(self, mixed: int) -> np.ndarray:
        """Reads the lesion mask of the MedMix image with index `mixed`, uint8 (S, S), 1 inside pasted lesions."""
        packed = np.load(self.folder / "mixed_masks.npy", mmap_mode="r")[mixed]
        return np.unpackbits(packed)[: self.size**2].reshape(self.size, self.size)


class PointImages:
    """Images of a point set, in the order of its points, loaded lazily (protocol `embed.Images`)."""

    def __init__(self, points: PointSet, images: Rows):
        self.row, self.which, self.images = points.row, points.mixed, images
        self.mixed = points.mixed_images() if (points.mixed >= 0).any() else None

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, at) -> np.ndarray:
        rows, mixed = np.atleast_1d(self.row[at]), np.atleast_1d(self.which[at])
        out = np.empty((len(rows), *self.images.shape[1:]), np.uint8)
        for i, (row, mix) in enumerate(zip(rows, mixed, strict=True)):
            out[i] = self.mixed[mix] if mix >= 0 and self.mixed is not None else self.images[row]
        return out


def points_key(
    study: dict, size: int, strong: str, options: dict, config: PointsConfig, donor: str | None = None
) -> str:
    """Computes the key of a point set, a hash of its inputs. `donor`: fingerprint of the donor study, if another."""
    content = [study["id"], study["fingerprint"], size, strong, options, config.to_dict()] + ([donor] if donor else [])
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]


def points_folder(home: Home, key: str) -> Path:
    return home.clusters / "points" / key


def load_points(home: Home, key: str) -> PointSet | None:
    """Loads a point set, or returns None if it has not been made."""
    folder = points_folder(home, key)
    if not (folder / "about.json").exists():
        return None
    facts = json.loads((folder / "about.json").read_text())
    with np.load(folder / "points.npz") as columns:
        return PointSet(key=key, folder=folder, **facts, **{c: columns[c] for c in PointSet.COLUMNS})


def made_points(home: Home, key: str, make: Callable[[Path], object]) -> PointSet:
    """Loads a point set. If it is missing, it is first written by `make(folder)`, while concurrent callers wait."""
    return files.built(points_folder(home, key), lambda: load_points(home, key), make)


def make_points(folder: Path, study: dict, size: int, mix, k: int, config: PointsConfig, arrays) -> None:
    """Writes a point set to `folder`: real images, and MedMix versions A_1 to A_k by the augmentation `mix`."""
    pick = functools.partial(_pick, config.seed)
    split, label = np.asarray(arrays.split), np.asarray(arrays.label)
    train = pick(np.flatnonzero((split == "train") & (label != "abnormal")), config.train)
    holdout = pick(np.flatnonzero(split == "holdout"), config.holdout)
    test = [
        pick(np.flatnonzero((split == "test") & (label == name)), most)
        for name, most in (
            ("normal", config.test_normal),
            ("abnormal", config.abnormal),
            ("unknown", config.test_normal + config.abnormal),
        )
    ]
    groups: list[str] = []
    chosen = []
    for name, rows in zip(REAL, (train, holdout, *test), strict=True):
        if len(rows):
            chosen.append((rows, 0, len(groups), np.full(len(rows), -1)))
            groups.append(name)
    base = {"train": train, "holdout": holdout, "all": np.sort(np.concatenate([holdout, train]))}[config.mix_of]
    base = pick(base, config.mixed)
    folder.mkdir()
    if len(base) > 1:
        _mix_all(folder, mix, k, config.seed, np.asarray(arrays.images[base]), np.asarray(arrays.roi[base]))
        for n in range(1, k + 1):
            chosen.append((base, n, len(groups), np.arange(len(base)) + (n - 1) * len(base)))
            groups.append(group_name(n))
    if sum(len(p[0]) for p in chosen) < 4:
        raise ValueError(f"study {study['name']!r} has too few images for a map: at least four are needed")
    row = np.concatenate([p[0] for p in chosen]).astype(np.int64)
    columns = {
        "case_id": np.asarray(arrays.case_ids, np.int64)[row],
        "row": row,
        "lesions": np.concatenate([np.full(len(p[0]), p[1]) for p in chosen]).astype(np.int64),
        "group": np.concatenate([np.full(len(p[0]), p[2]) for p in chosen]).astype(np.int64),
        "mixed": np.concatenate([p[3] for p in chosen]).astype(np.int64),
    }
    np.savez(folder / "points.npz", **columns)  # type: ignore[arg-type]
    facts = {"study": study["id"], "size": size, "groups": groups}
    (folder / "about.json").write_text(json.dumps(facts))


def _pick(seed: int, rows: np.ndarray, most: int) -> np.ndarray:
    """Draws at most `most` rows, in order. Each call uses the same seed, so that one limit does not affect another."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


def _mix_all(folder: Path, mix, k: int, seed: int, images: np.ndarray, roi: np.ndarray) -> None:
    """Writes MedMix versions A_1 to A_k of images uint8 (B, S, S, 3) to mixed.npy, with masks in mixed_masks.npy."""
    import torch

    from core.engine.tensors import to_batch, to_pixels

    count, side = len(images), images.shape[1]
    out = np.lib.format.open_memmap(folder / "mixed.npy", "w+", np.uint8, (k * count, *images.shape[1:]))
    masks = np.zeros((k * count, (side * side + 7) // 8), np.uint8)
    starts = list(range(0, count, BATCH))
    if len(starts) > 1 and count - starts[-1] < 2:
        starts.pop()  # a batch needs a second image from which lesions are cut
    for n in range(1, k + 1):
        for b, start in enumerate(starts):
            stop = starts[b + 1] if b + 1 < len(starts) else count
            draw = torch.Generator().manual_seed(seed * 1_000_003 + n * 10_007 + b)
            inside = torch.from_numpy(np.ascontiguousarray(roi[start:stop]))
            mixed = mix(to_batch(images[start:stop], torch.device("cpu")), n, draw, roi=inside)
            at = slice((n - 1) * count + start, (n - 1) * count + stop)
            out[at] = to_pixels(mixed.images)
            masks[at] = np.packbits(mixed.masks.numpy().reshape(stop - start, -1), axis=1)
    out.flush()
    np.save(folder / "mixed_masks.npy", masks)


@dataclass
class Projected:
    """M new images, projected onto a map of E epochs.

    coords: float32 (E, M, 2), coordinates of the images on the map.
    near: int64 (E, M, k), indices of the k nearest points of the map in feature space, nearest first.
    distance: float32 (E, M, k), distances to these points.
    out_of_support: bool (E, M), whether the mean of the k distances exceeds the 99th percentile of
        this mean for the map's points.
    """

    key: str
    map: str
    about: dict  # title, names, cases, paths, frames, left_out
    coords: np.ndarray
    near: np.ndarray
    distance: np.ndarray
    out_of_support: np.ndarray
    images: np.ndarray  # uint8 (M, S, S, 3), as the encoder saw them

    def __len__(self) -> int:
        return len(self.about["names"])


# Features of a map's points at one epoch, which are computed once and cached in the home.

CENTRES = "centres.safetensors"  # file of the class centres in the folder of a trained encoder
VERSION = 2  # increase it if the same inputs give different features


def chosen(store: Store, run: dict, config: MapConfig) -> list[Snapshot]:
    """Returns the encoders saved at `config.epochs`, by default the last one. Raises NotFound if one is missing."""
    have = {s.epoch: s for s in snapshots(store, run)}
    if not have:
        raise NotFound(f"run {run['id']} has saved no encoder yet: train it first")
    missing = [e for e in config.epochs if e not in have]
    if missing:
        listed = ", ".join(map(str, have))
        raise NotFound(f"run {run['id']} has no saved encoder of epoch {missing[0]}; choose from: {listed}")
    return [have[e] for e in config.epochs] if config.epochs else [have[max(have)]]


def features_key(snapshot: Snapshot, points: PointSet, config: MapConfig) -> str:
    content = f"{VERSION} {snapshot.digest} {points.key} {config.encoded}"
    return hashlib.sha256(content.encode()).hexdigest()[:24]


def has_centres(snapshot: Snapshot) -> bool:
    """Returns whether class centres were saved with an encoder; an untrained encoder has none."""
    return (snapshot.folder / CENTRES).exists()


def centres_of(snapshot: Snapshot) -> np.ndarray | None:
    """Loads the class centres c_0 to c_k of an encoder, float32 `(k + 1, D)`, or returns None if none were saved."""
    if not has_centres(snapshot):
        return None
    return load_file(snapshot.folder / CENTRES)["centres"].astype(np.float32)


def saved_centres(snapshot: Snapshot) -> np.ndarray:
    """Loads the class centres, float32 `(k + 1, D)`. Raises ValueError if the encoder was saved without centres."""
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
    """Computes features of the kind `config.feature` for all points, or reads them from the cache; float32 (N, D)."""
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
    """Converts features for the map: `centred` ones to unit vectors from the class centre; others are unchanged."""
    if config.feature != "centred":
        return np.asarray(features)
    centres = saved_centres(snapshot)
    return centred(np.asarray(features), np.minimum(points.lesions, len(centres) - 1), centres)


def kept_features(home: Home, key: str) -> np.ndarray | None:
    """Opens cached features by their key as a memory map, or returns None if they are not cached."""
    file = home.clusters / "features" / f"{key}.npy"
    return mapped(file) if file.exists() else None

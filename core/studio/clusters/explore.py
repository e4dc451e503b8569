"""What is asked of single points and of selections: who this is, who is like it, tags."""

from __future__ import annotations

import json

import numpy as np

from core.engine.metrics.vectors import nearest
from core.studio.clusters import pictures
from core.studio.clusters.features import finish, kept_features
from core.studio.clusters.library import Map
from core.studio.db.store import NotFound, Store
from core.studio.runs.snapshots import Snapshot


def describe(store: Store, m: Map, point: int, fit: str | None = None) -> dict:
    """Everything said of one point: the case, its class, its reading by run `fit`, the latest reviews, outlines."""
    pictures.check(m, point)
    case_id, lesions = int(m.points.case_id[point]), int(m.points.lesions[point])
    case = store.one("SELECT id, name, split, label, width, height, tags FROM cases WHERE id = ?", [case_id])
    said = {
        "point": point,
        "case_id": case_id,
        "lesions": lesions,
        "group": m.about["groups"][int(m.points.group[point])],
        "case": {**case, "tags": json.loads(case["tags"])} if case else None,
        "box": m.points.box(point),
        "outline": pictures.outline(store, m, point),
        "reading": None,
        "reviews": [],
    }
    if lesions == 0:
        said["reading"] = reading(store, case_id, fit)
        said["reviews"] = store.query(
            "SELECT reader, decision, comment, created FROM reviews WHERE case_id = ? AND active = 1 ORDER BY id DESC",
            [case_id],
        )
    return said


def reading(store: Store, case_id: int, fit: str | None) -> dict | None:
    """What run `fit` says of a case, without its heat map's values."""
    if not fit:
        return None
    return store.one(
        "SELECT run, score, score_roi, percentile, percentile_roi, flagged, flagged_roi, map IS NOT NULL AS has_map"
        " FROM readings WHERE run = ? AND case_id = ?",
        [fit, case_id],
    )


def features(store: Store, m: Map, epoch: int = -1) -> np.ndarray:
    """float32 (N, D): the very features that the map of epoch index `epoch` was made of."""
    count = len(m.about["epochs"])
    if not -count <= epoch < count:
        raise ValueError(f"this map has {count} epochs; index {epoch} is none of them")
    said = m.about["epochs"][epoch]
    if _last.get("key") != (key := (str(store.home.path), m.key, said["epoch"])):
        kept = kept_features(store.home, said["features_key"])
        if kept is None:
            raise NotFound("the features of this map were cleared from the cache: draw it again")
        snapshot = Snapshot(said["epoch"], store.home.path / said["snapshot"])
        _last.update(key=key, features=finish(kept, snapshot, m.points, m.config))
    return _last["features"]


_last: dict = {}  # of the map and epoch looked at last: neighbours are asked for one point after the other


def neighbours(store: Store, m: Map, point: int, epoch: int = -1, k: int = 10) -> list[dict]:
    """The k nearest points in feature space with their Euclidean distances, nearest first."""
    pictures.check(m, point)
    index, distance = nearest(features(store, m, epoch), point, k)
    return [{"point": int(i), "distance": float(d)} for i, d in zip(index, distance, strict=True)]

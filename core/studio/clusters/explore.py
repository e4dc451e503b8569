"""Data on the points of a map: pictures, colours, neighbours, and a table of all points.

Colours are read from the database at each request, because scores, decisions and tags may change. The table has one row
per point and epoch and is saved as CSV or Parquet.
"""

from __future__ import annotations

import csv
import io
import json

import cv2
import numpy as np

from core.engine.metrics.vectors import nearest
from core.engine.rows import Rows
from core.studio.clusters.library import Map
from core.studio.clusters.points import Projected, finish, group_name, kept_features
from core.studio.db.store import NotFound, Store
from core.studio.ingest import cache, resize
from core.studio.ingest.masks import get_mask
from core.studio.ingest.originals import shown
from core.studio.ingest.records import name_shown
from core.studio.review.exports.tables import Names, cell
from core.studio.runs import records as runs
from core.studio.runs.marks import truth_masks
from core.studio.runs.preferred import preference
from core.studio.runs.readings import pixel_scale, unpack_map, unpack_not_judged
from core.studio.runs.weights import Snapshot

_open: dict[tuple, Rows] = {}


def check(m: Map, point: int) -> int:
    """Checks that the map has a point with the index `point`; returns the index. Raises ValueError otherwise."""
    if not 0 <= point < len(m.points):
        raise ValueError(f"this map has points 0 to {len(m.points) - 1}, not {point}")
    return point


def thumbnail(store: Store, m: Map, point: int, side: int = 96) -> np.ndarray:
    """Returns a point's thumbnail, uint8 (H, W, 3) RGB, in the image's aspect ratio, up to `side` pixels per side."""
    check(m, point)
    mixed = int(m.points.mixed[point])
    image = m.points.mixed_images()[mixed] if mixed >= 0 else _arrays(store, m)[int(m.points.row[point])]
    image = np.asarray(image)
    return resize.shrink(image, *fitted(_aspect(store, m, point), side))


def fitted(aspect: float, side: int) -> tuple[int, int]:
    """Returns (width, height) in pixels for an aspect ratio (width / height) if the longer side has `side` pixels."""
    return (side, max(1, round(side / aspect))) if aspect >= 1 else (max(1, round(side * aspect)), side)


def _aspect(store: Store, m: Map, point: int) -> float:
    """Returns width / height of a point's original image, because encoders get all images resized to a square."""
    case = store.one("SELECT width, height FROM cases WHERE id = ?", [int(m.points.case_id[point])])
    return case["width"] / case["height"] if case and case["width"] and case["height"] else 1.0


def picture(store: Store, m: Map, point: int, side: int = 512) -> np.ndarray:
    """Returns a point's picture, uint8 (H, W, 3) RGB: the case's image, or its MedMix version.

    The picture has the case's aspect ratio and at most `side` pixels per side. Raises ValueError if the case no longer
    exists.
    """
    check(m, point)
    mixed = int(m.points.mixed[point])
    if mixed >= 0:
        image = np.asarray(m.points.mixed_images()[mixed])
        interpolation = cv2.INTER_CUBIC if len(image) < side else cv2.INTER_AREA
        return cv2.resize(image, fitted(_aspect(store, m, point), side), interpolation=interpolation)
    case = store.one("SELECT path, frame, scale FROM cases WHERE id = ?", [int(m.points.case_id[point])])
    if case is None:
        raise ValueError("this case is no longer in the study")
    return resize.fit(shown(case), side)


def outline(store: Store, m: Map, point: int) -> list[list[list[float]]]:
    """Returns the outlines of the lesions in a point's image, as rings of coordinates [x, y] from 0 to 1."""
    check(m, point)
    mixed = int(m.points.mixed[point])
    mask = m.points.mixed_mask(mixed) if mixed >= 0 else _mask(store, m.about["study"], int(m.points.case_id[point]))
    if mask is None or not mask.any():
        return []
    rings, _ = cv2.findContours(np.ascontiguousarray(mask, np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_TC89_L1)
    height, width = mask.shape
    return [((ring[:, 0] + 0.5) / (width, height)).round(4).tolist() for ring in rings if len(ring) > 2]


def heat(store: Store, m: Map, point: int, fit: str, side: int = 256) -> np.ndarray:
    """Returns run `fit`'s heat map of a point's case as a coloured overlay, uint8 (side, side, 4) RGBA.

    The colour scale is the same for all images of the run and comes from held-out normal images. Normal regions are
    transparent, and regions that are not judged are hatched in grey. Raises ValueError if the run has no heat map of
    the case.
    """
    check(m, point)
    case_id = int(m.points.case_id[point])
    query = "SELECT * FROM readings WHERE run = ? AND case_id = ? AND map IS NOT NULL"
    row = store.one(query, [fit, case_id]) if m.points.lesions[point] == 0 else None
    if row is None:
        raise ValueError("this run has no heat map of this image")
    scale = pixel_scale(runs.get_run(store, fit))
    values = cv2.resize(unpack_map(row), (side, side), interpolation=cv2.INTER_LINEAR)
    level = np.clip((values - scale.lo) / (scale.hi - scale.lo), 0, 1)
    coloured = cv2.applyColorMap((level * 255).astype(np.uint8), cv2.COLORMAP_INFERNO)[:, :, ::-1]
    rgba = np.dstack([coloured, (np.clip(level * 1.6, 0, 0.85) * 255).astype(np.uint8)])
    hidden = cv2.resize(unpack_not_judged(row).astype(np.uint8), (side, side), interpolation=cv2.INTER_NEAREST) > 0
    rgba[hidden & (np.add.outer(np.arange(side), np.arange(side)) % 12 < 2)] = (200, 200, 200, 217)
    return rgba


def _mask(store: Store, study: str, case_id: int) -> np.ndarray | None:
    mask = truth_masks(store, study).masks.get(case_id)
    return None if mask is None else get_mask(store, mask)


def _arrays(store: Store, m: Map) -> Rows:
    """Opens the study's images at the map's image size as a memory map; the last one is cached."""
    key = (str(store.home.path), m.about["study"], m.about["points_key"])
    if key not in _open:
        _open.clear()
        _open[key] = cache.load_arrays(store, m.about["study"], m.about["size"]).images
    return _open[key]


NONE = "\u2013"


def fits(store: Store, m: Map) -> list[dict]:
    """Lists the detector runs whose scores can colour the map: [{"id", "name", "method", "parent"}].

    Runs on the map's encoder come first. Both groups are ordered by detector (default detector first), and then
    from newest to oldest.
    """
    fit_runs = [r for r in runs.list_runs(store, m.about["study"], "fit") if _has_readings(store, r["id"])]
    fit_runs.sort(key=lambda r: (r["parent"] == m.about["run"], -preference(r["method"]), r["created"]), reverse=True)
    return [{"id": r["id"], "name": r["name"], "method": r["method"], "parent": r["parent"]} for r in fit_runs]


def _has_readings(store: Store, run: str) -> bool:
    return store.one("SELECT 1 FROM readings WHERE run = ? LIMIT 1", [run]) is not None


def columns(store: Store, m: Map, fit: str | None = None) -> list[dict]:
    """Returns the columns by which the map can be coloured, each with a value for every point.

    A column of categories is {"name", "title", "names", "codes": indices into names}; a column of numbers is {"name",
    "title", "values"}; unknown values are None. Scores, decisions and tags of MedMix images are unknown. Scores are
    included only if a run `fit` is given.
    """
    points = m.points
    query = (
        f"SELECT id, split, label, tags, {', '.join(_OF_IMAGES)} FROM cases WHERE study = ? AND {_ON_MAP.format('id')}"
    )
    cases = {c["id"]: c for c in store.query(query, [m.about["study"], _ids(points)])}
    is_real = np.asarray(points.lesions) == 0
    missing = {"split": NONE, "label": NONE, "tags": "[]", "modality": None}
    rows = [cases.get(int(c), missing) for c in points.case_id]
    out = [
        {"name": "class", "title": "Class", "names": list(m.about["groups"]), "codes": points.group.tolist()},
        pseudo(m),
        category("split", "Split", [r["split"] for r in rows]),
        category("label", "Label", [r["label"] if o else "synthetic" for r, o in zip(rows, is_real, strict=True)]),
    ]
    if fit:
        out += _readings(store, points, is_real, fit)
    out += _reviews(store, points, is_real, m.about["study"])
    tags = [", ".join(sorted(json.loads(r["tags"] or "[]"))) if o else "" for r, o in zip(rows, is_real, strict=True)]
    if any(tags):
        out.append(category("tag", "Tag", [t or NONE for t in tags]))
    for name, title in _OF_IMAGES.items():
        values = [r.get(name) for r in rows]
        if name == "added":
            values = [v and v[:10] for v in values]  # the date
        kinds = set(values) - {None}
        if len(kinds) > 12 and all(isinstance(v, int) for v in kinds):  # too many for a legend
            out.append({"name": name, "title": title, "values": values})
        elif len(set(values)) > 1:
            out.append(category(name, title, [NONE if v is None else str(v) for v in values]))
    return out


def with_names(columns: list[dict], names: Names) -> list[dict]:
    """Returns the columns for an export, in which readers' names and dates are replaced unless `names` keeps them."""
    changed = {"reader": names.reader, "added": names.date}
    out = []
    for column in columns:
        change = changed.get(column["name"])
        if change is not None and "names" in column:
            column = {**column, "names": [n if n == NONE else change(n) for n in column["names"]]}
        out.append(column)
    return out


_OF_IMAGES = {
    "modality": "Modality",
    "width": "Image width",
    "height": "Image height",
    "bits": "Bits",
    "added": "Added to the study",
}
_ON_MAP = "{} IN (SELECT value FROM json_each(?))"


def _ids(points) -> str:
    """Returns the case ids of a map's points as JSON for a query, because the study may have many more cases."""
    return json.dumps(np.unique(points.case_id).tolist())


def pseudo(m: Map) -> dict:
    """Builds the column of the pre-training classes; test images belong to none of these classes.

    A_0 contains the training images and the held-out normal images, and A_n the MedMix images with n pasted lesions.
    """
    classes = m.points.classes()
    names = ["A\u2080, normal"] + [group_name(n) for n in range(1, max(classes.max(), 0) + 1)]
    codes = np.where(classes < 0, len(names), classes)
    return {"name": "pseudo", "title": "Pseudo class", "names": [*names, NONE], "codes": codes.tolist()}


def category(name: str, title: str, values: list[str]) -> dict:
    """Builds a column of categories, with codes as indices into the sorted names; NONE (unknown) is the last name."""
    names = sorted(set(values), key=lambda v: (v == NONE, v))
    code = {v: i for i, v in enumerate(names)}
    return {"name": name, "title": title, "names": names, "codes": [code[v] for v in values]}


def _readings(store: Store, points, is_real: np.ndarray, fit: str) -> list[dict]:
    readings = {
        r["case_id"]: r
        for r in store.query(
            "SELECT case_id, score, score_roi, percentile, percentile_roi, flagged, flagged_roi FROM readings"
            f" WHERE run = ? AND {_ON_MAP.format('case_id')}",
            [fit, _ids(points)],
        )
    }
    rows = [readings.get(int(c)) if o else None for c, o in zip(points.case_id, is_real, strict=True)]
    flagged = [NONE if r is None else "flagged" if r["flagged_roi"] else "not flagged" for r in rows]
    return [
        {"name": "percentile", "title": "Percentile", "values": [r and r["percentile_roi"] for r in rows]},
        {"name": "score", "title": "Score", "values": [r and r["score_roi"] for r in rows]},
        category("flagged", "Flagged", flagged),
    ]


def _reviews(store: Store, points, is_real: np.ndarray, study: str) -> list[dict]:
    latest = {}
    for r in store.query(
        "SELECT r.case_id, r.decision, r.reader FROM reviews r JOIN cases c ON c.id = r.case_id"
        " WHERE c.study = ? AND r.active = 1 ORDER BY r.id",
        [study],
    ):
        latest[r["case_id"]] = r
    rows = [latest.get(int(c)) if o else None for c, o in zip(points.case_id, is_real, strict=True)]
    return [
        category("decision", "Decision", [r["decision"] if r else NONE for r in rows]),
        category("reader", "Reader", [r["reader"] if r else NONE for r in rows]),
    ]


def describe(store: Store, m: Map, point: int, fit: str | None = None) -> dict:
    """Returns details of a point: case, class, scores by run `fit`, active reviews (newest first), lesion outlines."""
    check(m, point)
    case_id, lesions = int(m.points.case_id[point]), int(m.points.lesions[point])
    case = store.one("SELECT id, name, added, split, label, width, height, tags FROM cases WHERE id = ?", [case_id])
    if case is not None:
        case = {**case, "name": name_shown(case), "tags": json.loads(case["tags"])}
        case.pop("added")
    facts = {
        "point": point,
        "case_id": case_id,
        "lesions": lesions,
        "group": m.about["groups"][int(m.points.group[point])],
        "case": case,
        "outline": outline(store, m, point),
        "reading": None,
        "reviews": [],
    }
    if lesions == 0:
        facts["reading"] = reading(store, case_id, fit)
        facts["reviews"] = store.query(
            "SELECT reader, decision, comment, created FROM reviews WHERE case_id = ? AND active = 1 ORDER BY id DESC",
            [case_id],
        )
    return facts


def reading(store: Store, case_id: int, fit: str | None) -> dict | None:
    """Returns the scores that run `fit` gave a case, without the heat map, or None if it has not scored the case."""
    if not fit:
        return None
    return store.one(
        "SELECT run, score, score_roi, percentile, percentile_roi, flagged, flagged_roi, map IS NOT NULL AS has_map"
        " FROM readings WHERE run = ? AND case_id = ?",
        [fit, case_id],
    )


def features(store: Store, m: Map, epoch: int = -1) -> np.ndarray:
    """Loads the points' features at epoch index `epoch`, float32 (N, D).

    Raises ValueError if the index is out of range, and NotFound if the features were cleared from the cache.
    """
    count = len(m.about["epochs"])
    if not -count <= epoch < count:
        raise ValueError(f"epoch index {epoch} is out of range: this map has {count} epochs")
    facts = m.about["epochs"][epoch]
    if _last.get("key") != (key := (str(store.home.path), m.key, facts["epoch"])):
        stored = kept_features(store.home, facts["features_key"])
        if stored is None:
            raise NotFound("the features of this map were cleared from the cache: draw it again")
        snapshot = Snapshot(facts["epoch"], store.home.path / facts["snapshot"])
        _last.update(key=key, features=finish(stored, snapshot, m.points, m.config))
    return _last["features"]


_last: dict = {}  # features of the last map and epoch, because requests for several points follow each other


def neighbours(store: Store, m: Map, point: int, epoch: int = -1, k: int = 10) -> list[dict]:
    """Returns the k nearest points in feature space, nearest first: [{"point", "distance": Euclidean distance}]."""
    check(m, point)
    index, distance = nearest(features(store, m, epoch), point, k)
    return [{"point": int(i), "distance": float(d)} for i, d in zip(index, distance, strict=True)]


TABLE_FORMATS = ("csv", "parquet")


def table(store: Store, m: Map, names: Names, fit: str | None = None) -> dict[str, list]:
    """Builds the table of all points at all epochs, ordered by epoch: {column: list of values}.

    The columns are epoch, point, x, y, case_id, case and pasted_lesions, followed by the result of `columns`.
    """
    count, epochs = len(m.points), [e["epoch"] for e in m.about["epochs"]]
    rows = store.query("SELECT id, name FROM cases WHERE study = ?", [m.about["study"]])
    called = {c["id"]: c["name"] if names.keep else names.case(c) for c in rows}
    cases = m.points.case_id.tolist()
    out: dict[str, list] = {
        "epoch": np.repeat(epochs, count).tolist(),
        "point": list(range(count)) * len(epochs),
        "x": np.asarray(m.coords[:, :, 0], float).ravel().tolist(),
        "y": np.asarray(m.coords[:, :, 1], float).ravel().tolist(),
        "case_id": cases * len(epochs),
        "case": [called.get(c, "") for c in cases] * len(epochs),
        "pasted_lesions": m.points.lesions.tolist() * len(epochs),
    }
    for column in with_names(columns(store, m, fit), names):
        values = column.get("values") or [column["names"][c] for c in column["codes"]]
        values = [None if v == NONE else v for v in values]
        out[column["name"]] = values * len(epochs)
    return out


def add_projected(out: dict[str, list], m: Map, projected: list[Projected]) -> None:
    """Adds a row per projected image to a table, and the columns `placed` (title) and `far` (out of support)."""
    rows = len(out["epoch"])
    out["placed"], out["far"] = [None] * rows, [None] * rows
    first = len(m.points)
    for new in projected:
        for e, epoch in enumerate(m.about["epochs"]):
            for j, (x, y) in enumerate(new.coords[e].astype(float).tolist()):
                case = new.about["cases"][j]
                row = {"epoch": epoch["epoch"], "point": first + j, "x": x, "y": y, "case": new.about["names"][j]}
                row |= {"case_id": case if case >= 0 else None, "placed": new.about["title"]}
                row["far"] = bool(new.out_of_support[e, j])
                for column, values in out.items():
                    values.append(row.get(column))
        first += len(new)


def write(
    store: Store, m: Map, format: str, names: Names, fit: str | None = None, projected: list[Projected] | None = None
) -> bytes:
    """Returns the table of points and `projected` images as the bytes of a file. `format` is one of TABLE_FORMATS."""
    if format not in TABLE_FORMATS:
        raise ValueError(f"the format of a table must be {' or '.join(TABLE_FORMATS)}, not {format!r}")
    columns = table(store, m, names, fit)
    if projected:
        add_projected(columns, m, projected)
    if format == "parquet":
        import pyarrow
        from pyarrow import parquet

        sink = io.BytesIO()
        parquet.write_table(pyarrow.table(columns), sink)
        return sink.getvalue()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([cell(name) for name in columns])
    for row in zip(*columns.values(), strict=True):
        writer.writerow([cell(v) for v in row])
    return out.getvalue().encode()

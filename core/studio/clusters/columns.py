"""What a map's points can be coloured by: read anew each time, for scores, decisions and tags change under a map."""

from __future__ import annotations

import json

import numpy as np

from core.studio.clusters import patches
from core.studio.clusters.library import Map
from core.studio.clusters.points import group_name
from core.studio.db.store import Store
from core.studio.review.exports.names import Names
from core.studio.runs import records as runs
from core.studio.runs.preferred import preference

NONE = "\u2013"


def fits(store: Store, m: Map) -> list[dict]:
    """Runs whose readings can colour the map, best first: those on its own encoder, the default detector's before
    others, newer before older; then the study's others."""
    found = [r for r in runs.list_runs(store, m.about["study"], "fit") if _has_readings(store, r["id"])]
    found.sort(key=lambda r: (r["parent"] == m.about["run"], -preference(r["method"]), r["created"]), reverse=True)
    return [{"id": r["id"], "name": r["name"], "method": r["method"], "parent": r["parent"]} for r in found]


def _has_readings(store: Store, run: str) -> bool:
    return store.one("SELECT 1 FROM readings WHERE run = ? LIMIT 1", [run]) is not None


def columns(store: Store, m: Map, fit: str | None = None) -> list[dict]:
    """[{"name", "title", "names", "codes"}] for categories, [{"name", "title", "values"}] for numbers (None: unknown).

    MedMix versions have no score, decision or tag of their own: theirs stay unknown.
    """
    points = m.points
    shown = (
        f"SELECT id, split, label, tags, {', '.join(_OF_IMAGES)} FROM cases WHERE study = ? AND {_ON_MAP.format('id')}"
    )
    cases = {c["id"]: c for c in store.query(shown, [m.about["study"], _ids(points)])}
    own = np.asarray(points.lesions) == 0
    missing = {"split": NONE, "label": NONE, "tags": "[]", "modality": None}
    rows = [cases.get(int(c), missing) for c in points.case_id]
    out = [
        {"name": "class", "title": "Class", "names": list(m.about["groups"]), "codes": points.group.tolist()},
        pseudo(m),
        category("split", "Split", [r["split"] for r in rows]),
        category("label", "Label", [r["label"] if o else "synthetic" for r, o in zip(rows, own, strict=True)]),
    ]
    if points.in_lesion is not None:
        names = [*patches.NAMES]
        out.insert(0, {"name": "patch", "title": "Patch", "names": names, "codes": (points.in_lesion % 3).tolist()})
    if fit:
        out += _readings(store, points, own, fit)
    out += _reviews(store, points, own, m.about["study"])
    tags = [", ".join(sorted(json.loads(r["tags"] or "[]"))) if o else "" for r, o in zip(rows, own, strict=True)]
    if any(tags):
        out.append(category("tag", "Tag", [t or NONE for t in tags]))
    for name, title in _OF_IMAGES.items():
        values = [r.get(name) for r in rows]
        if name == "added":
            values = [v and v[:10] for v in values]  # the day
        kinds = set(values) - {None}
        if len(kinds) > 12 and all(isinstance(v, int) for v in kinds):  # more than a legend can name: a scale
            out.append({"name": name, "title": title, "values": values})
        elif len(set(values)) > 1:
            out.append(category(name, title, [NONE if v is None else str(v) for v in values]))
    return out


def with_names(found: list[dict], names: Names) -> list[dict]:
    """The columns as they may leave the studio: readers and days remapped unless `names` keeps them."""
    changed = {"reader": names.reader, "added": names.date}
    out = []
    for column in found:
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
    """The cases of a map's points, for a query: a study may have many more."""
    return json.dumps(np.unique(points.case_id).tolist())


def pseudo(m: Map) -> dict:
    """The classes that pre-training separates: A_0 (normals of training and hold-out) to A_k; test images in none."""
    classes = m.points.classes()
    names = ["A\u2080, normal"] + [group_name(n) for n in range(1, max(classes.max(), 0) + 1)]
    codes = np.where(classes < 0, len(names), classes)
    return {"name": "pseudo", "title": "Pseudo class", "names": [*names, NONE], "codes": codes.tolist()}


def category(name: str, title: str, values: list[str]) -> dict:
    """Codes by the order of names; the unknown comes last."""
    names = sorted(set(values), key=lambda v: (v == NONE, v))
    code = {v: i for i, v in enumerate(names)}
    return {"name": name, "title": title, "names": names, "codes": [code[v] for v in values]}


def _readings(store: Store, points, own: np.ndarray, fit: str) -> list[dict]:
    found = {
        r["case_id"]: r
        for r in store.query(
            "SELECT case_id, score, score_roi, percentile, percentile_roi, flagged, flagged_roi FROM readings"
            f" WHERE run = ? AND {_ON_MAP.format('case_id')}",
            [fit, _ids(points)],
        )
    }
    rows = [found.get(int(c)) if o else None for c, o in zip(points.case_id, own, strict=True)]
    flagged = [NONE if r is None else "flagged" if r["flagged_roi"] else "not flagged" for r in rows]
    return [
        {"name": "percentile", "title": "Percentile", "values": [r and r["percentile_roi"] for r in rows]},
        {"name": "score", "title": "Score", "values": [r and r["score_roi"] for r in rows]},
        category("flagged", "Flagged", flagged),
    ]


def _reviews(store: Store, points, own: np.ndarray, study: str) -> list[dict]:
    latest = {}
    for r in store.query(
        "SELECT r.case_id, r.decision, r.reader FROM reviews r JOIN cases c ON c.id = r.case_id"
        " WHERE c.study = ? AND r.active = 1 ORDER BY r.id",
        [study],
    ):
        latest[r["case_id"]] = r
    rows = [latest.get(int(c)) if o else None for c, o in zip(points.case_id, own, strict=True)]
    return [
        category("decision", "Decision", [r["decision"] if r else NONE for r in rows]),
        category("reader", "Reader", [r["reader"] if r else NONE for r in rows]),
    ]

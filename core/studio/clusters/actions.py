"""What can be done with a selection: tag its cases, put them on a reader's worklist, keep a view of the map."""

from __future__ import annotations

import json

import numpy as np

from core.studio.clusters.library import Map
from core.studio.db.store import NotFound, Store, now
from core.studio.review import tags
from core.studio.review.readers import assign_one

LONGEST = 60


def cases_of(m: Map, points: list[int]) -> list[int]:
    """Ids of the cases that the points are; MedMix versions are no cases and are left out."""
    index = np.asarray(points, np.int64)
    if len(index) and (index.min() < 0 or index.max() >= len(m.points)):
        raise ValueError(f"this map has points 0 to {len(m.points) - 1}")
    return sorted(set(m.points.case_id[index[m.points.lesions[index] == 0]].tolist()))


def tag(store: Store, m: Map, points: list[int], name: str, by: str, remove: bool = False) -> dict:
    """Add (or take away) a tag: {"tag", "cases": how many changed, "left_out": MedMix versions among the points}."""
    changed = tags.change(store, m.about["study"], cases_of(m, points), name, by, remove)
    left_out = int((m.points.lesions[np.asarray(points, int)] > 0).sum())
    return {"tag": tags.clean(name), "cases": changed, "left_out": left_out}


def to_worklist(store: Store, m: Map, points: list[int], reader: str) -> dict:
    """Assign the test cases among the points to `reader`: {"cases", "left_out"}; training images are not read."""
    tests = {
        r["id"] for r in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test'", [m.about["study"]])
    }
    cases = [c for c in cases_of(m, points) if c in tests]
    if not cases:
        raise ValueError("none of the selected points is a test case; only these are read")
    with store.write():
        for case in cases:
            assign_one(store, case, reader, reader)
    return {"cases": len(cases), "left_out": len(set(points)) - len(cases)}


def save_view(store: Store, study: str, name: str, reader: str, state: dict) -> int:
    """Keep what the page shows under a name; the same name replaces. Returns its id."""
    name = " ".join(name.split())
    if not name or len(name) > LONGEST:
        raise ValueError(f"a view's name has 1 to {LONGEST} characters")
    row = {"study": study, "name": name, "reader": reader, "created": now(), "state": json.dumps(state)}
    with store.write() as db:
        db.execute("DELETE FROM cluster_views WHERE study = ? AND name = ?", [study, name])
        db.table("cluster_views").insert(row)
        return db.execute("SELECT last_insert_rowid()").fetchone()[0]


def list_views(store: Store, study: str) -> list[dict]:
    """Views of a study by name, with their states."""
    rows = store.query("SELECT * FROM cluster_views WHERE study = ? ORDER BY name", [study])
    return [{**row, "state": json.loads(row["state"])} for row in rows]


def delete_view(store: Store, view: int) -> None:
    """Forget a view."""
    if store.one("SELECT 1 FROM cluster_views WHERE id = ?", [view]) is None:
        raise NotFound("there is no such view")
    store.execute("DELETE FROM cluster_views WHERE id = ?", [view])

"""The maps in a home (one for each set of inputs, listed in the database), and actions on selected points.

The cases of selected points can be tagged or put on a reader's worklist, and views of a map can be saved.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.studio.clusters.config import MapConfig
from core.studio.clusters.points import PointSet, chosen, load_points, points_key
from core.studio.db.store import NotFound, Store, now
from core.studio.ingest import studies
from core.studio.jobs import queue as jobs
from core.studio.review import cases
from core.studio.review.people import assign_one
from core.studio.runs.weights import Snapshot, encoder_run

VERSION = 2  # increase it if the same configuration gives a different map


@dataclass(frozen=True)
class Plan:
    """Inputs of a map. `key` is a hash of all inputs, and `points_key` a hash of those that determine the images."""

    key: str
    points_key: str
    study: dict
    run: dict
    config: MapConfig
    snapshots: tuple[Snapshot, ...]
    size: int
    strong: str
    options: dict
    k: int


def plan(store: Store, run_id: str, config: MapConfig) -> Plan:
    """Returns the inputs and the key of a map for a run's encoder. Raises NotFound if no encoder has been saved."""
    from core.engine.augment.config import MedMixConfig
    from core.studio.runs.readings import size_of

    run = encoder_run(store, run_id)
    study = studies.show_study(store, run["study"])
    shots = tuple(chosen(store, run, config))
    trained = run["config"]
    size, k, strong = size_of(store, run), int(trained.get("k", 3)), trained.get("strong", "medmix")
    options = {**trained.get("medmix" if strong == "medmix" else "strong_options", {}), "k": k}
    donor = MedMixConfig.from_dict(options).pooled if strong == "medmix" else ""
    cut_from = store.one("SELECT fingerprint FROM studies WHERE id = ?", [donor]) or {"fingerprint": donor}
    points = points_key(study, size, strong, options, config.points, cut_from["fingerprint"])
    settled = config.replace(epochs=[s.epoch for s in shots]) if not config.epochs else config
    content = [VERSION, points, [s.digest for s in shots], settled.to_dict()]
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]
    return Plan(key, points, study, run, settled, shots, size, strong, options, k)


def request(store: Store, run_id: str, config: MapConfig, device: str = "auto") -> dict:
    """Queues a job that makes a map unless it exists or is being made; returns {"key", "ready", "job": id or None}."""
    map_plan = plan(store, run_id, config)
    if (map_folder(store, map_plan.key) / "map.json").exists() and _row(store, map_plan.key):
        return {"key": map_plan.key, "ready": True, "job": None}
    step = {"step": "embed", "run": map_plan.run["id"], "args": {"config": map_plan.config.to_dict(), "device": device}}
    with store.write():
        row = _row(store, map_plan.key)
        if row and under_way(store, row["job"]):  # possibly as a step of a longer job
            return {"key": map_plan.key, "ready": False, "job": row["job"]}
        job = jobs.submit(store, [step])
        enter(store, map_plan, job=job)
    return {"key": map_plan.key, "ready": False, "job": job}


def stop(store: Store, key: str) -> str:
    """Stops the job that makes a map; returns the job's status.

    Raises ValueError if the map is not being made, or if the job has other steps.
    """
    row = _row(store, key)
    if row is None or not under_way(store, row["job"]):
        raise ValueError("this map is not being drawn")
    if len(jobs.get_job(store, row["job"])["chain"]) > 1:
        raise ValueError("this map is part of a longer job: stop the job in the Training tab")
    return jobs.cancel(store, row["job"])


def under_way(store: Store, job: int | None) -> bool:
    """Returns whether a job is queued or running."""
    return store.one("SELECT 1 FROM jobs WHERE id = ? AND status IN ('queued', 'running')", [job]) is not None


def enter(store: Store, map_plan: Plan, **values) -> None:
    """Inserts a map's row into the database if it is missing, and sets its columns to `values`."""
    row = {
        "key": map_plan.key,
        "study": map_plan.study["id"],
        "run": map_plan.run["id"],
        "config": map_plan.config.to_json(),
    }
    with store.write() as db:
        if _row(store, map_plan.key) is None:
            db.table("cluster_maps").insert({**row, "created": now()})
        if values:
            db.table("cluster_maps").update(map_plan.key, values)


def _row(store: Store, key: str) -> dict | None:
    return store.one("SELECT * FROM cluster_maps WHERE key = ?", [key])


def is_key(key: str) -> bool:
    """Returns whether a text has the form of a map's key, which is also the name of the map's folder."""
    return key.isascii() and key.isalnum() and len(key) <= 64


def map_folder(store: Store, key: str) -> Path:
    return store.home.clusters / "maps" / key


@dataclass
class Map:
    """Finished map: coordinates float32 (E, N, 2) of N points at E epochs, and `about`, the content of map.json."""

    key: str
    about: dict
    coords: np.ndarray
    points: PointSet

    @property
    def config(self) -> MapConfig:
        return MapConfig.from_dict(self.about["config"])


def open_map(store: Store, key: str) -> Map:
    """Opens a finished map. Raises NotFound if it has not been made or was cleared from the cache."""
    folder = map_folder(store, key)
    if not is_key(key) or not (folder / "map.json").exists():
        raise NotFound("this map has not been made, or the cache was cleared: draw it again")
    stamp = (folder / "map.json").stat().st_mtime_ns
    cached = _opened.get((folder, stamp))
    if cached is not None:
        return cached
    facts = json.loads((folder / "map.json").read_text())
    points = load_points(store.home, facts["points_key"])
    if points is None:
        raise NotFound("the images of this map were cleared from the cache: draw it again")
    while len(_opened) >= 8:
        _opened.pop(next(iter(_opened)), None)
    _opened[folder, stamp] = opened = Map(key, facts, np.load(folder / "coords.npy", mmap_mode="r"), points)
    return opened


_opened: dict[tuple[Path, int], Map] = {}  # the last maps, because a page requests hundreds of thumbnails of one


def list_maps(store: Store, study: str) -> list[dict]:
    """Lists finished and unfinished maps of a study, newest first, each with the state of its job."""
    rows = store.query(
        "SELECT m.*, r.name AS run_name, j.status AS job_status, j.progress, j.message FROM cluster_maps m"
        " JOIN runs r ON r.id = m.run LEFT JOIN jobs j ON j.id = m.job WHERE m.study = ? AND r.binned IS NULL"
        " ORDER BY m.created DESC, m.rowid DESC",
        [study],
    )
    for row in rows:
        row["config"] = json.loads(row["config"])
        row["epochs"] = json.loads(row["epochs"] or "[]")
        row["ready"] = (map_folder(store, row["key"]) / "map.json").exists()
    return rows


def forget(store: Store, key: str) -> None:
    """Deletes a map, but keeps the cached features and images. Raises NotFound for an unknown key."""
    if _row(store, key) is None:
        raise NotFound("unknown map")
    store.execute("DELETE FROM cluster_maps WHERE key = ?", [key])
    shutil.rmtree(map_folder(store, key), ignore_errors=True)


LONGEST = 60


def cases_of(m: Map, points: list[int]) -> list[int]:
    """Returns the case ids of all points but MedMix images. Raises ValueError for a point that is not on the map."""
    index = np.asarray(points, np.int64)
    if len(index) and (index.min() < 0 or index.max() >= len(m.points)):
        raise ValueError(f"this map has points 0 to {len(m.points) - 1}: select only these")
    return sorted(set(m.points.case_id[index[m.points.lesions[index] == 0]].tolist()))


def tag(store: Store, m: Map, points: list[int], name: str, by: str, remove: bool = False) -> dict:
    """Adds or removes a tag; returns {"tag", "cases": number of changed cases, "left_out": number of MedMix images}."""
    changed = cases.change_tag(store, m.about["study"], cases_of(m, points), name, by, remove)
    left_out = int((m.points.lesions[np.asarray(points, int)] > 0).sum())
    return {"tag": cases.clean_tag(name), "cases": changed, "left_out": left_out}


def to_worklist(store: Store, m: Map, points: list[int], reader: str) -> dict:
    """Assigns the points' test cases to `reader`; returns {"cases": number, "left_out": number of other points}."""
    tests = {
        r["id"] for r in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test'", [m.about["study"]])
    }
    cases = [c for c in cases_of(m, points) if c in tests]
    if not cases:
        raise ValueError("none of the selected points is a test case: select test cases")
    with store.write():
        for case in cases:
            assign_one(store, case, reader, reader)
    return {"cases": len(cases), "left_out": len(set(points)) - len(cases)}


def save_view(store: Store, study: str, name: str, reader: str, state: dict) -> int:
    """Saves the state of the page as a view, replacing a view with the same name; returns the view's id."""
    name = " ".join(name.split())
    if not name or len(name) > LONGEST:
        raise ValueError(f"a view's name must have 1 to {LONGEST} characters")
    row = {"study": study, "name": name, "reader": reader, "created": now(), "state": json.dumps(state)}
    with store.write() as db:
        db.execute("DELETE FROM cluster_views WHERE study = ? AND name = ?", [study, name])
        db.table("cluster_views").insert(row)
        return db.execute("SELECT last_insert_rowid()").fetchone()[0]


def list_views(store: Store, study: str) -> list[dict]:
    """Lists the saved views of a study with their states, ordered by name."""
    rows = store.query("SELECT * FROM cluster_views WHERE study = ? ORDER BY name", [study])
    return [{**row, "state": json.loads(row["state"])} for row in rows]


def delete_view(store: Store, view: int) -> None:
    """Deletes a saved view by its id. Raises NotFound if the view does not exist."""
    if store.one("SELECT 1 FROM cluster_views WHERE id = ?", [view]) is None:
        raise NotFound("unknown view")
    store.execute("DELETE FROM cluster_views WHERE id = ?", [view])

"""Projection of new images onto a finished map: the job step "project", and the storage of its results."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from core.engine import files
from core.engine.backbones import embed
from core.engine.backbones.encoder import load_encoder
from core.engine.config import BadConfig, Config, option
from core.engine.losses.centred import centred
from core.engine.progress import Stopped
from core.engine.tensors import pick_device
from core.studio.clusters import explore
from core.studio.clusters.library import Map, is_key, map_folder, open_map, under_way
from core.studio.clusters.points import Projected, saved_centres
from core.studio.db.store import NotFound, Store, now
from core.studio.ingest import resize, roots, studies
from core.studio.ingest.decode import read_image
from core.studio.ingest.layouts import files_under
from core.studio.ingest.unreadable import Unreadable
from core.studio.jobs import queue as jobs
from core.studio.jobs.steps import Work
from core.studio.review.exports.tables import Names
from core.studio.runs import pooled
from core.studio.runs.weights import Snapshot

VERSION = 1  # increase it if the same images are projected to different positions
MOST = 5_000  # maximum number of images, 1 GB at 256 x 256 pixels
_MASKS = {"mask", "masks", "ground_truth"}  # folders of a data set that are skipped


@dataclass(frozen=True)
class ProjectionConfig(Config):
    """Settings of a projection: a folder of images, or a study whose cases are not on the map yet."""

    folder: str = ""
    study: str = ""
    neighbours: int = option(10, "Number of nearest points that determine an image's position.", low=1, high=100)

    def __post_init__(self):
        super().__post_init__()
        if bool(self.folder) == bool(self.study):
            raise BadConfig("give either a folder or a study of images to project onto the map")


@dataclass(frozen=True)
class Source:
    """Image to project. `case` is -1 for an image that is not a case; `stamp` is a text that changes with the file."""

    name: str
    path: str
    frame: int = 0
    case: int = -1
    stamp: str = ""


def sources(store: Store, m: Map, config: ProjectionConfig) -> tuple[str, list[Source]]:
    """Returns a title and the images to project.

    Raises ValueError if there are no images or more than MOST, and NotFound for an unknown study.
    """
    if config.study:
        study = studies.show_study(store, config.study)
        on_map = set(m.points.case_id.tolist()) if study["id"] == m.about["study"] else set()
        rows = store.query('SELECT * FROM cases WHERE study = ? ORDER BY "row"', [study["id"]])
        new_sources = [
            Source(r["name"], r["path"], r["frame"], r["id"], r["sha256"]) for r in rows if r["id"] not in on_map
        ]
        title, none = study["name"], f"every image of study {study['name']!r} is already on this map"
    else:
        root = Path(config.folder)
        if not root.is_dir():
            raise ValueError(f"the folder {config.folder!r} does not exist")
        within = roots.Within([root, *roots.named(store)])  # links to other folders are not followed
        images = (f for f in files_under(root) if not _MASKS & {p.lower() for p in f.relative_to(root).parts[:-1]})
        files = [f for f in images if within.holds(f)]
        new_sources = [Source(str(f.relative_to(root)), str(f.absolute()), stamp=_stamp(f)) for f in files]
        title, none = root.absolute().name, f"there is no image in the folder {config.folder!r}"
    if not new_sources:
        raise ValueError(none)
    if len(new_sources) > MOST:
        raise ValueError(f"{title} has {len(new_sources)} images; at most {MOST} are projected at once")
    return title, new_sources


def _stamp(file: Path) -> str:
    facts = file.stat()
    return f"{facts.st_size} {facts.st_mtime_ns}"


def request(store: Store, key: str, config: ProjectionConfig, device: str = "auto") -> dict:
    """Queues the projection of images onto map `key`, unless it exists; returns {"key", "ready", "job": id or None}."""
    m = open_map(store, key)
    if config.folder:  # made absolute, because the worker has another working directory
        config = config.replace(folder=str(Path(config.folder).expanduser().absolute()))
    title, new_sources = sources(store, m, config)
    content = json.dumps([VERSION, key, config.neighbours, [[s.path, s.frame, s.stamp] for s in new_sources]])
    new = hashlib.sha256(content.encode()).hexdigest()[:20]
    args = {"map": key, "placed": new, "config": config.to_dict(), "device": device}
    with store.write() as db:
        row = store.one("SELECT * FROM cluster_projected WHERE key = ?", [new])
        if row and (folder_of(store, key, new) / "about.json").exists():
            return {"key": new, "ready": True, "job": None}
        if row and under_way(store, row["job"]):
            return {"key": new, "ready": False, "job": row["job"]}
        job = jobs.submit(store, [{"step": "project", "run": m.about["run"], "args": args}])
        values = {"map": key, "title": title, "config": config.to_json(), "images": len(new_sources), "job": job}
        db.table("cluster_projected").upsert({"key": new, "created": now(), **values}, pk="key")
    return {"key": new, "ready": False, "job": job}


def folder_of(store: Store, map_key: str, key: str) -> Path:
    """Returns the folder of projected images, inside the map's folder, so that both are deleted together."""
    return map_folder(store, map_key) / "placed" / key  # the folder's name in homes of every version


def list_projected(store: Store, map_key: str) -> list[dict]:
    """Lists the finished and running projections onto a map, oldest first, each with the state of its job."""
    rows = store.query(
        "SELECT p.key, p.title, p.images, p.job, j.status AS job_status, j.progress, j.message FROM cluster_projected p"
        " LEFT JOIN jobs j ON j.id = p.job WHERE p.map = ? ORDER BY p.created, p.rowid",
        [map_key],
    )
    return [{**r, "ready": (folder_of(store, map_key, r["key"]) / "about.json").exists()} for r in rows]


def open_projected(store: Store, map_key: str, key: str) -> Projected:
    """Opens projected images. Raises NotFound if they have not been projected, or were cleared from the cache."""
    folder = folder_of(store, map_key, key)
    if not (is_key(key) and is_key(map_key)) or not (folder / "about.json").exists():
        raise NotFound("these images have not been projected, or the cache was cleared: project them again")
    with np.load(folder / "placed.npz") as stored:
        # "far" is the name in the files of every version
        arrays = {name: stored[name] for name in ("coords", "near", "distance")} | {"out_of_support": stored["far"]}
    images = np.load(folder / "images.npy", mmap_mode="r")
    return Projected(key, map_key, json.loads((folder / "about.json").read_text()), images=images, **arrays)


def with_names(new: Projected, names: Names) -> Projected:
    """Returns the images for an export, with file and folder names replaced unless `names` keeps them."""
    named = {"title": names.file(new.about["title"]), "names": [names.file(n) for n in new.about["names"]]}
    return replace(new, about={**new.about, **named})


def forget(store: Store, map_key: str, key: str) -> None:
    """Deletes the row and files of projected images. Raises NotFound if they are not on this map."""
    if store.one("SELECT 1 FROM cluster_projected WHERE key = ? AND map = ?", [key, map_key]) is None:
        raise NotFound("these images were not projected onto this map")
    store.execute("DELETE FROM cluster_projected WHERE key = ?", [key])
    shutil.rmtree(folder_of(store, map_key, key), ignore_errors=True)


def describe(new: Projected, image: int, epoch: int = -1) -> dict:
    """Returns details of a projected image at an epoch index: name, title, case, `far` (out of support), neighbours."""
    if not 0 <= image < len(new):
        raise ValueError(f"the projected images are 0 to {len(new) - 1}, not {image}")
    if not -len(new.coords) <= epoch < len(new.coords):
        raise ValueError(f"epoch index {epoch} is out of range: this map has {len(new.coords)} epochs")
    pairs = zip(new.near[epoch, image].tolist(), new.distance[epoch, image].tolist(), strict=True)
    return {
        "name": new.about["names"][image],
        "title": new.about["title"],
        "case_id": new.about["cases"][image],
        "far": bool(new.out_of_support[epoch, image]),
        "neighbours": [{"point": i, "distance": d} for i, d in pairs],
    }


def thumbnail(new: Projected, image: int, side: int = 96) -> np.ndarray:
    """Returns the thumbnail of a projected image, uint8 (side, side, 3) RGB, made from the square encoder input."""
    return resize.shrink(np.asarray(new.images[image]), side, side)


def picture(new: Projected, image: int, side: int = 512) -> np.ndarray:
    """Reads a projected image from its file, uint8 (H, W, 3) RGB with at most `side` pixels per side.

    If the file cannot be read, the square copy that was encoded is returned, resized to (side, side, 3).
    """
    try:
        image_read = read_image(new.about["paths"][image], new.about["frames"][image])
    except (ValueError, OSError):
        small = np.asarray(new.images[image])
        return cv2.resize(small, (side, side), interpolation=cv2.INTER_CUBIC)
    return resize.fit(image_read, side)


USUAL = 99  # percentile of the map points' mean neighbour distances; an image above it is out of support


def project(work: Work) -> str:
    """Projects images onto a map (step of a job); returns the key of the projected images.

    The step's args, which `request` sets, are {"map", "placed": result's key, "config", "device"}. Existing results are
    kept.
    """
    m = open_map(work.store, work.args["map"])
    config = ProjectionConfig.from_dict(work.args["config"])
    folder = folder_of(work.store, m.key, work.args["placed"])
    with files.replacing(folder) as draft:
        if not (folder / "about.json").exists():
            _make(work, m, config, draft)
    return work.args["placed"]


def _make(work: Work, m: Map, config: ProjectionConfig, folder: Path) -> None:
    title, new_sources = sources(work.store, m, config)
    used, images, left_out = _read(work, new_sources, m.about["size"])
    per_epoch = [_epoch(work, m, e, images, config.neighbours) for e in range(len(m.about["epochs"]))]
    coords, index, distance, out_of_support = (np.stack(column) for column in zip(*per_epoch, strict=True))
    folder.mkdir()
    np.save(folder / "images.npy", images)
    np.savez(folder / "placed.npz", coords=coords, near=index, distance=distance.astype(np.float32), far=out_of_support)
    facts = {
        "title": title,
        "names": [s.name for s in used],
        "cases": [s.case for s in used],
        "paths": [s.path for s in used],
        "frames": [s.frame for s in used],
        "left_out": left_out,
    }
    (folder / "about.json").write_text(json.dumps(facts))
    work.store.execute("UPDATE cluster_projected SET images = ? WHERE key = ?", [len(used), work.args["placed"]])


def _report(work: Work, share: float, message: str) -> None:
    if work.should_stop():
        raise Stopped
    work.report({"step": round(1000 * share), "steps": 1000, "message": message})


def _read(work: Work, new_sources: list, size: int) -> tuple[list, np.ndarray, list]:
    """Returns readable sources, their images uint8 (M, S, S, 3), and [[name, reason], ...] of unreadable sources."""
    used, images, left_out = [], [], []
    for i, source in enumerate(new_sources):
        _report(work, 0.4 * i / len(new_sources), f"Reading image {i + 1} of {len(new_sources)}")
        try:
            images.append(resize.shrink(read_image(source.path, source.frame), size, size))
            used.append(source)
        except (Unreadable, OSError) as error:
            left_out.append([source.name, str(error)])
    if not used:
        raise ValueError(f"none of the {len(new_sources)} files can be read as an image: {left_out[0][1]}")
    return used, np.stack(images), left_out


def _epoch(work: Work, m: Map, e: int, images: np.ndarray, k: int) -> tuple:
    """Projects images at an epoch; returns coords (M, 2), neighbours and distances (M, k), out of support (M,)."""
    from core.studio.clusters.maps import nearest_points, weighted_mean  # loads scikit-learn, which takes a second

    epoch, count = m.about["epochs"][e], len(m.about["epochs"])
    snapshot = Snapshot(epoch["epoch"], work.store.home.path / epoch["snapshot"])
    _report(work, 0.4 + 0.6 * e / count, f"Projecting {len(images)} images at epoch {snapshot.epoch}")
    device = pick_device(work.device)
    encoder = load_encoder(snapshot.folder, device)
    with pooled.kept(work.store, m.about["study"]):  # for features with the same rounding as the map's
        new = embed.encode(encoder, images, m.config.encoded, device=device, should_stop=work.should_stop)
    if m.config.feature == "centred":  # real images belong to class A_0
        new = centred(new, np.zeros(len(new), np.int64), saved_centres(snapshot))
    map_features = np.asarray(explore.features(work.store, m, e))
    index, distance = nearest_points(map_features, new, k)
    usual_distance = nearest_points(map_features, map_features, k + 1)[1][:, 1:].mean(1)  # without each point itself
    out_of_support = distance.mean(1) > np.percentile(usual_distance, USUAL)
    return weighted_mean(np.asarray(m.coords[e]), index, distance), index, distance, out_of_support

"""The job step "project": read new images, encode them at each epoch of a map, project them onto it."""

from __future__ import annotations

import json

import numpy as np

from core.engine.backbones import embed
from core.engine.backbones.encoder import load_encoder
from core.engine.losses.centred import centred
from core.engine.progress import Stopped
from core.engine.tensors import pick_device
from core.studio.clusters import explore, projected
from core.studio.clusters.features import saved_centres
from core.studio.clusters.library import Map, open_map
from core.studio.clusters.maps import nearest_points, weighted_mean
from core.studio.ingest import resize
from core.studio.ingest.decode import read_image
from core.studio.ingest.unreadable import Unreadable
from core.studio.jobs.steps import Work, step
from core.studio.runs.snapshots import Snapshot

USUAL = 99  # percentile of the map's own points of neighbour distances; an image beyond it is out of the map's support


@step("project")
def project(work: Work) -> str:
    """args: {"map", "placed", "config"}: see `projected.request`. Returns the key; what is there stays."""
    m = open_map(work.store, work.args["map"])
    config = projected.ProjectionConfig.from_dict(work.args["config"])
    folder = projected.folder_of(work.store, m.key, work.args["placed"])
    if (folder / "about.json").exists():
        return work.args["placed"]
    title, found = projected.sources(work.store, m, config)
    kept, images, left_out = _read(work, found, m.about["size"])
    parts = [_epoch(work, m, e, images, config.neighbours) for e in range(len(m.about["epochs"]))]
    coords, index, distance, out_of_support = (np.stack(column) for column in zip(*parts, strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "images.npy", images)
    np.savez(folder / "placed.npz", coords=coords, near=index, distance=distance.astype(np.float32), far=out_of_support)
    about = {
        "title": title,
        "names": [s.name for s in kept],
        "cases": [s.case for s in kept],
        "paths": [s.path for s in kept],
        "frames": [s.frame for s in kept],
        "left_out": left_out,
    }
    part = folder / "about.part"
    part.write_text(json.dumps(about))
    part.replace(folder / "about.json")  # last: a folder that has it is complete
    work.store.execute("UPDATE cluster_projected SET images = ? WHERE key = ?", [len(kept), work.args["placed"]])
    return work.args["placed"]


def _report(work: Work, part: float, message: str) -> None:
    if work.should_stop():
        raise Stopped
    work.report({"step": round(1000 * part), "steps": 1000, "message": message})


def _read(work: Work, found: list, size: int) -> tuple[list, np.ndarray, list]:
    """(sources that could be read, uint8 (M, S, S, 3), [[name, reason], ...])."""
    kept, images, left_out = [], [], []
    for i, source in enumerate(found):
        _report(work, 0.4 * i / len(found), f"Reading image {i + 1} of {len(found)}")
        try:
            images.append(resize.shrink(read_image(source.path, source.frame), size, size))
            kept.append(source)
        except (Unreadable, OSError) as error:
            left_out.append([source.name, str(error)])
    if not kept:
        raise ValueError(f"none of the {len(found)} files is an image that can be read: {left_out[0][1]}")
    return kept, np.stack(images), left_out


def _epoch(work: Work, m: Map, e: int, images: np.ndarray, k: int) -> tuple:
    """Of one epoch: coords (M, 2), indices and distances (M, k), out of support (M,)."""
    about, count = m.about["epochs"][e], len(m.about["epochs"])
    snapshot = Snapshot(about["epoch"], work.store.home.path / about["snapshot"])
    _report(work, 0.4 + 0.6 * e / count, f"Projecting {len(images)} images at epoch {snapshot.epoch}")
    device = pick_device(work.device)
    kind = "projected" if m.config.feature == "centred" else m.config.feature
    encoder = load_encoder(snapshot.folder, device)
    new = embed.encode(encoder, images, kind, device=device, should_stop=work.should_stop)
    if m.config.feature == "centred":  # a real image belongs to A_0, whatever it shows
        new = centred(new, np.zeros(len(new), np.int64), saved_centres(snapshot))
    known = np.asarray(explore.features(work.store, m, e))
    index, distance = nearest_points(known, new, k)
    own = nearest_points(known, known, k + 1)[1][:, 1:].mean(1)  # without itself
    out_of_support = distance.mean(1) > np.percentile(own, USUAL)
    return weighted_mean(np.asarray(m.coords[e]), index, distance), index, distance, out_of_support

"""Explains a run's score of a case by its most abnormal patch, the nearest normal patch, and similar normal images.

Similar images are the normal training images with the smallest Euclidean distance in backbone features. Scoring finds
them for every case and stores them in the score's field `extra`. For scores from older versions, they are computed at
each request and not stored, because requests must not change the database.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.engine.registry import DETECTORS
from core.engine.rows import Some
from core.studio.db import seals
from core.studio.db.store import Store
from core.studio.ingest.cache import StudyArrays, erasures, load_arrays
from core.studio.ingest.records import pictured
from core.studio.runs import records as runs
from core.studio.runs.pooled import kept
from core.studio.runs.readings import add_extra, size_of
from core.studio.runs.weights import Snapshot, encoder_run

if TYPE_CHECKING:  # imports torch, which the page's process loads only to explain a case
    from core.engine.detectors.nearest.nearest import Match, Nearest


USUAL = 12  # number of held-out normal images that give the usual distances


def explain(store: Store, run_id: str, case_id: int) -> dict:
    """Finds the most abnormal patch of a case, and the patch of a normal training image that is most similar to it.

    Returns {"box", "there", "case", "distance", "usual"}.
    box: Patch in the case's image, (x0, y0, x1, y1) as fractions of the image.
    there: Patch in the training image, in the same form.
    case: The training image, a dictionary with its id and name.
    distance: Distance between the features of both patches.
    usual: {"median", "largest", "count"} of the same distance for held-out normal images, or None if there are none.
    Raises ValueError if the run does not compare patches, or if the case is not in the run's study.
    """
    run = runs.get_run(store, run_id)
    if not DETECTORS.fact(run["method"], "compares"):
        raise ValueError("Only runs that compare nearest patches, alone or in a blend, can explain a case.")
    arrays = load_arrays(store, run["study"], size_of(store, run))
    at = np.flatnonzero(arrays.case_ids == case_id)
    if not len(at):
        raise ValueError("This case is not in the study of the run.")
    train = arrays.index("train")
    detector, fitted_on = _detector(runs.run_folder(store, run_id), run["method"], len(train))
    [match] = _matches(detector, arrays, at)
    holdout = arrays.index("holdout", label="normal")[:USUAL]
    usual = _usual(runs.run_folder(store, run_id), detector, arrays, holdout) if len(holdout) else None
    train_case = int(arrays.case_ids[train[fitted_on[match.row]]])
    return {
        "box": [round(v / detector.size, 5) for v in match.box],
        "there": [round(v / detector.size, 5) for v in match.there],
        "case": pictured(store, "id = ?", train_case),
        "distance": round(match.distance, 4),
        "usual": usual,
    }


def _matches(detector: Nearest, arrays, index: np.ndarray) -> list[Match]:
    return detector.explain(np.array(arrays.images[index]), roi=np.array(arrays.roi[index]))


@functools.lru_cache(maxsize=2)
def _detector(folder: Path, method: str, count: int) -> tuple[Nearest, np.ndarray]:
    """Loads a run's nearest-patch detector, and the indices, among `count` images, of the images it was fitted on."""
    from core.engine.detectors.ensemble.ensemble import Ensemble
    from core.engine.detectors.nearest.nearest import Nearest

    detector = DETECTORS.get(method).load(folder, "cpu")
    fitted_rows = np.arange(count)
    if isinstance(detector, Ensemble):
        assert detector.kept is not None  # because the ensemble was fitted
        fitted_rows = detector.kept
        blend = dict(detector.members).get("blend", detector)
        assert isinstance(blend, Ensemble)
        detector = blend.members["fine"]
    assert isinstance(detector, Nearest)
    return detector, fitted_rows


_usual_of: dict[Path, dict] = {}  # by run folder, so that each is computed once


def _usual(folder: Path, detector: Nearest, arrays, holdout: np.ndarray) -> dict:
    if folder not in _usual_of:
        distances = [match.distance for match in _matches(detector, arrays, holdout)]
        _usual_of[folder] = {
            "median": round(float(np.median(distances)), 4),
            "largest": round(float(max(distances)), 4),
            "count": len(distances),
        }
    return _usual_of[folder]


KEEP = 3
CHUNK = 64


def nearest(store: Store, run_id: str, case_id: int) -> list[dict]:
    """Lists the normal training images that are most similar to a case, most similar first.

    Each entry is {"id", "name", ..., "v": version of the image file, "distance"}. Raises ValueError if the run has not
    scored the case.
    """
    query = "SELECT json_extract(extra, '$.nearest') AS n FROM readings WHERE run = ? AND case_id = ?"
    row = store.one(query, [run_id, case_id])
    if row is None:
        raise ValueError("This run has not scored the case: score the study with it first.")
    study = runs.get_run(store, run_id)["study"]
    if row["n"] is None:
        run, arrays = _arrays(store, run_id)
        encoder = _loaded(_encoder_folder(store, run_id))
        with kept(store, study):
            find = Finder(store, run, arrays, encoder, "cpu")
            neighbours = find(np.flatnonzero(arrays.case_ids == case_id))[case_id]
    else:
        neighbours = json.loads(row["n"])
    out = []
    for other, distance in neighbours:
        case = pictured(store, 'study = ? AND "row" = ?', study, other)
        if case is not None:
            out.append({**case, "distance": distance})
    return out


def add_nearest(
    store: Store,
    run_id: str,
    device: str = "auto",
    should_stop: Callable[[], bool] = lambda: False,
    report: Callable[[dict], None] = lambda values: None,
) -> None:
    """Stores the nearest training images of each held-out and test case of a scored run.

    Raises Stopped if `should_stop` returns True.
    """
    from core.engine.backbones.embed import remembering
    from core.engine.backbones.encoder import load_encoder
    from core.engine.progress import Stopped
    from core.engine.tensors import pick_device

    run, arrays = _arrays(store, run_id)
    torch_device = pick_device(device)
    encoder = load_encoder(_encoder_folder(store, run_id), torch_device)
    index = arrays.index("holdout", "test")
    with remembering(), kept(store, run["study"]):  # so that the encoder is copied only once
        find = Finder(store, run, arrays, encoder, torch_device)
        for start in range(0, len(index), CHUNK):
            if should_stop():
                raise Stopped("scoring was stopped; the scores are kept, but some nearest training images are missing")
            report({"message": f"Nearest training images: {start} of {len(index)}"})
            add_extra(store, run_id, "nearest", find(index[start : start + CHUNK]))


def _arrays(store: Store, run_id: str) -> tuple[dict, StudyArrays]:
    run = runs.get_run(store, run_id)
    return run, load_arrays(store, run["study"], size_of(store, run))


def _encoder_folder(store: Store, run_id: str) -> Path:
    return runs.run_folder(store, encoder_run(store, run_id)["id"])


@functools.lru_cache(maxsize=1)
def _loaded(folder: Path):
    from core.engine.backbones.encoder import load_encoder

    return load_encoder(folder, "cpu")


class Finder:
    """Finds the normal training images that are most similar to a case; computes their features only once."""

    def __init__(self, store: Store, run: dict, arrays: StudyArrays, encoder, device) -> None:
        self.arrays, self.encoder, self.device = arrays, encoder, device
        self.normal = arrays.index("train", label="normal")
        self.features = _training(store, run, arrays, encoder, self.normal, device)
        # A case keeps its row in the study when a bundle is imported in another home, but not its id.
        rows = store.query('SELECT id, "row" FROM cases WHERE study = ?', [run["study"]])
        self.places = {c["id"]: c["row"] for c in rows}

    def __call__(self, index: np.ndarray) -> dict[int, list]:
        """Returns {case id: [[row of a training case, distance], ...]} for the rows `index` of the image arrays."""
        from core.engine.backbones.embed import encode

        images = np.array(self.arrays.images[index])
        neighbours = {}
        for row, vector in zip(index, encode(self.encoder, images, "backbone", device=self.device), strict=True):
            # Differences in double precision, as in clusters, so that equal images have a distance of exactly 0.
            distance = np.sqrt(((self.features - vector).astype(np.float64) ** 2).sum(1))
            neighbours[int(self.arrays.case_ids[row])] = [
                [self.places[int(self.arrays.case_ids[self.normal[i]])], round(float(distance[i]), 4)]
                for i in np.lexsort((self.normal, distance))[:KEEP]
            ]
        return neighbours


def _training(store: Store, run: dict, arrays: StudyArrays, encoder, normal: np.ndarray, device) -> np.ndarray:
    """Returns backbone features, float32 (N, F), of the normal training images, cached by encoder and images."""
    from core.engine.backbones.embed import encode

    marks = store.query("SELECT id, sha256, frame FROM cases WHERE study = ?", [run["study"]])
    mark = {m["id"]: f"{m['sha256']} {m['frame']}" for m in marks}
    key_fields = [Snapshot(0, _encoder_folder(store, run["id"])).digest, str(arrays.images.shape[1])]
    key_fields += [mark[int(i)] for i in arrays.case_ids[normal]]
    key = hashlib.sha256("\n".join(key_fields).encode()).hexdigest()[:24]
    file = store.home.cache / run["study"] / f"training-features-{key}.npy"
    if not len(normal):
        raise ValueError("The study has no normal training images to compare with.")
    images, erased_before = Some(arrays.images, normal), erasures(store)
    features = seals.built_array(file, lambda own: np.save(own, encode(encoder, images, "backbone", device=device)))
    if erasures(store) != erased_before:  # a patient in the features may have been erased meanwhile
        file.unlink(missing_ok=True)
    return features

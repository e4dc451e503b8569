"""Explanation of a case: its most abnormal patch, the most similar normal patch, and the distance between them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.engine.registry import DETECTORS
from core.studio.db.store import Store
from core.studio.ingest.cache import load_arrays
from core.studio.ingest.records import pictured
from core.studio.runs import records as runs
from core.studio.runs.readings import size_of

if TYPE_CHECKING:  # torch, which the page's process loads when it is asked to explain
    from core.engine.detectors.nearest.nearest import Match, Nearest

USUAL = 12  # held-out normals whose most abnormal patches give the usual distances


def explain(store: Store, run_id: str, case_id: int) -> dict:
    """Finds the most abnormal patch of a case according to a run, and the training patch nearest to it.

    Returns {"box", "there", "case", "distance", "usual"}. box, there: (x0, y0, x1, y1) as fractions of the case's image
    and of the training image `case`. distance: between the two patches' features. usual: {"median", "largest", "count"}
    of this distance over held-out normal images, None without any. Raises ValueError if the run does not compare
    patches, or if the case is not in its study.
    """
    run = runs.get_run(store, run_id)
    if not DETECTORS.fact(run["method"], "compares"):
        raise ValueError("Only the nearest patches, alone or blended, compare with one patch of one image.")
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
    """Loads a run's nearest-patch detector, and the indices of the images of its fit among `count` training images."""
    from core.engine.detectors.ensemble.ensemble import Ensemble
    from core.engine.detectors.nearest.nearest import Nearest

    detector = DETECTORS.get(method).load(folder, "cpu")
    fitted_rows = np.arange(count)
    if isinstance(detector, Ensemble):
        assert detector.kept is not None  # of a fit
        fitted_rows = detector.kept
        blend = dict(detector.members).get("blend", detector)
        assert isinstance(blend, Ensemble)
        detector = blend.members["fine"]
    assert isinstance(detector, Nearest)
    return detector, fitted_rows


_usual_of: dict[Path, dict] = {}  # by run folder: read once


def _usual(folder: Path, detector: Nearest, arrays, holdout: np.ndarray) -> dict:
    if folder not in _usual_of:
        distances = [match.distance for match in _matches(detector, arrays, holdout)]
        _usual_of[folder] = {
            "median": round(float(np.median(distances)), 4),
            "largest": round(float(max(distances)), 4),
            "count": len(distances),
        }
    return _usual_of[folder]

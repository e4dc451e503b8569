"""Scores of images that are in no study: nothing of them is kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from core.engine.calibration.percentiles import Calibration
from core.studio.db.store import Store
from core.studio.ingest.resize import prepare
from core.studio.runs import records as runs
from core.studio.runs.operating import FLAG_PERCENTILE
from core.studio.runs.readings import size_of
from core.studio.runs.scoring import load_detector, look

BATCH = 32
LOADED = 2  # detectors that stay in memory
Looked = tuple[np.ndarray, dict[str, np.ndarray]]


def looked(store: Store, detector: Any, run: str, images: Sequence[np.ndarray]) -> Iterator[Looked]:
    """Scores images uint8 (H, W, 3), BATCH at once.

    Yields heat maps float32 (n, h, w) and scores {"plain", "roi"} float64 (n,).
    """
    size = size_of(store, runs.get_run(store, run))
    for start in range(0, len(images), BATCH):
        pairs = [prepare(image, size) for image in images[start : start + BATCH]]
        shown, roi = (np.stack(column) for column in zip(*pairs, strict=True))
        yield look(detector, shown, roi)[:2]


def scored(store: Store, run: str, scores: Sequence[np.ndarray]) -> pd.DataFrame:
    """Makes a table of scores inside the region of interest.

    It has percentile and flagged once the run's study was scored.
    """
    values = np.concatenate([*scores, np.zeros(0)])
    frame = pd.DataFrame({"score": values})
    stored = runs.get_run(store, run)["summary"].get("calibration")
    if stored:
        calibration = Calibration.from_dict(stored["roi"])
        frame["percentile"] = calibration.percentile(values)
        frame["flagged"] = calibration.flagged(values, FLAG_PERCENTILE)
    return frame


class Looks:
    """Scores single images for a server: one at a time, with the last LOADED detectors kept in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._detectors: OrderedDict[str, Any] = OrderedDict()
        self._turn = threading.Lock()

    def at(self, run: str, image: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
        """Scores an image uint8 (H, W, 3) by a run: {"score", "percentile", "flagged"}.

        percentile and flagged are None where a run was not scored. Returns its heat map float32 (h, w) beside. Raises
        NotFound, ValueError if the run is no finished fit, Damaged if its files are.
        """
        runs.get_run(self._store, run)
        with self._turn:
            detector = self._detectors.pop(run, None) or load_detector(self._store, run, "auto")
            self._detectors[run] = detector
            while len(self._detectors) > LOADED:
                self._detectors.popitem(last=False)
            maps, scores = next(looked(self._store, detector, run, [image]))
        row = scored(self._store, run, [scores["roi"]]).iloc[0].to_dict()
        percentile, flagged = row.get("percentile"), row.get("flagged")
        return {
            "score": float(row["score"]),
            "percentile": None if percentile is None else float(percentile),
            "flagged": None if flagged is None else bool(flagged),
        }, maps[0]

"""Normal images of a study and their regions of interest, decoded once for the MedMix tab."""

from __future__ import annotations

import json
import random
import threading
from collections import OrderedDict

import numpy as np

from core.studio.db.store import Store
from core.studio.ingest.originals import shown
from core.studio.ingest.resize import mask_at, prepare
from core.studio.runs import marks


class Samples:
    """Caches the last `most` images that were loaded. It can be shared between threads."""

    def __init__(self, store: Store, most: int = 96):
        self.store, self._most = store, most
        self._kept: OrderedDict[tuple, tuple[np.ndarray, np.ndarray, float]] = OrderedDict()
        self._lock = threading.Lock()

    def normals(self, study: str, seed: int, count: int) -> list[dict]:
        """Samples `count` training normals by the seed, repeated if there are fewer.

        Raises ValueError if the study has none.
        """
        cases = self.store.query(
            "SELECT id, name, path, frame, scale FROM cases WHERE study = ? AND split = 'train' AND label = 'normal' "
            'ORDER BY "row"',
            [study],
        )
        if not cases:
            raise ValueError("this study has no normal training images to make classes of")
        random.Random(seed).shuffle(cases)
        return [cases[i % len(cases)] for i in range(count)]

    def load(self, cases: list[dict], size: int) -> tuple[np.ndarray, np.ndarray]:
        """Loads cases: images uint8 (M, S, S, 3) and regions of interest uint8 (M, S, S), 1 inside."""
        loaded = [self._one(case, size) for case in cases]
        return np.stack([i for i, _, _ in loaded]), np.stack([r for _, r, _ in loaded])

    def marked(self, study: str, size: int, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Loads images uint8 (M, S, S, 3), M <= most, and masks uint8 (M, S, S) of lesions that readers marked.

        Raises ValueError if there are none.
        """
        rows = marks.accepted(self.store, study)[:most]
        if not rows:
            raise ValueError(marks.none_accepted(self.store, study))
        marked_cases = self.store.query(
            "SELECT id, name, path, frame, scale FROM cases WHERE id IN (SELECT value FROM json_each(?))",
            [json.dumps([row["case_id"] for row in rows])],
        )
        cases = {case["id"]: case for case in marked_cases}
        images, _ = self.load([cases[row["case_id"]] for row in rows], size)
        return images, np.stack([mask_at(marks.lesion_of(row), size) for row in rows])

    def aspect(self, cases: list[dict], size: int) -> float | None:
        """Returns width / height of the images, or None if it differs between them by more than 2 %."""
        loaded = [self._one(case, size)[2] for case in cases]
        return round(float(np.mean(loaded)), 4) if max(loaded) <= 1.02 * min(loaded) else None

    def _one(self, case: dict, size: int) -> tuple[np.ndarray, np.ndarray, float]:
        key = (case["path"], case["frame"], size)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        image = shown(case)
        loaded = *prepare(image, size), image.shape[1] / image.shape[0]
        with self._lock:
            self._kept[key] = loaded
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return loaded

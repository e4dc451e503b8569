"""Detects text, such as names and dates, that is burned into images and that de-identification cannot remove.

Images are checked at import. The check can miss text, so a person must look at the images before they are shared.
"""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np

from core.studio.db.store import Store


def likely(image: np.ndarray) -> bool:
    """Returns whether an RGB image, uint8 `(H, W, 3)`, probably contains text, which is searched for at two scales."""
    from core.engine.roi import WORKING_SIDE, find_text

    short = min(image.shape[:2])
    for side in {min(short, WORKING_SIDE), min(short, 2 * WORKING_SIDE)}:
        size = (max(1, round(image.shape[1] * side / short)), max(1, round(image.shape[0] * side / short)))
        small = image if side == short else cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        if find_text(np.ascontiguousarray(small)).any():
            return True
    return False


def among(store: Store, study: str, ids: Iterable[int] | None = None) -> dict[str, list[int]]:
    """Returns {"cases": ids of the cases with probable burned-in text}. `ids` defaults to all cases of the study."""
    query = "SELECT id FROM cases WHERE study = ? AND burned_in = 1 ORDER BY id"
    likely_ids = [row["id"] for row in store.query(query, [study])]
    chosen_ids = set(likely_ids if ids is None else ids)
    return {"cases": [case for case in likely_ids if case in chosen_ids]}


def warning(checked: dict[str, list[int]]) -> str | None:
    """Returns a warning about the cases in a result of `among`, or None if there are no cases."""
    n = len(checked["cases"])
    noun = "case" if n == 1 else "cases"
    return f"{n} {noun} may carry burned-in text (a name, a date); check before you share pictures" if n else None

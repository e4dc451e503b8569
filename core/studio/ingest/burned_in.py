"""Finds text burned into pictures (names, dates), which de-identification cannot remap. Images are checked at import.

A hit is only likely text; a person has to look before pictures are passed on. cases.burned_in: 1 likely, 0 no text
found, NULL not checked (cases of an earlier version).
"""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np

from core.studio.db.store import Store
from core.studio.ingest.decode import read_image
from core.studio.ingest.unreadable import Unreadable

LOOK_AT_MOST = 2000  # unchecked cases that one export checks; if there are more, they are only counted


def likely(image: np.ndarray) -> bool:
    """Returns whether an RGB image, uint8 (H, W, 3), likely shows text; checks two scales, for captions of any size."""
    from core.engine.roi import WORKING_SIDE, find_text

    short = min(image.shape[:2])
    for side in {min(short, WORKING_SIDE), min(short, 2 * WORKING_SIDE)}:
        size = (max(1, round(image.shape[1] * side / short)), max(1, round(image.shape[0] * side / short)))
        small = image if side == short else cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        if find_text(np.ascontiguousarray(small)).any():
            return True
    return False


def among(store: Store, study: str, ids: Iterable[int] | None = None, look: bool = True) -> dict:
    """Finds the cases with likely text among `ids`, or in the whole study.

    Unchecked cases are checked now if `look` is True and there are at most LOOK_AT_MOST. Returns {"cases": ids of cases
    with likely text, "unknown": number of cases that are still unchecked or cannot be read}.
    """
    chosen_ids = None if ids is None else set(ids)
    rows = store.query(
        "SELECT id, path, frame, burned_in FROM cases WHERE study = ? AND burned_in IS NOT 0 ORDER BY id", [study]
    )
    rows = [r for r in rows if chosen_ids is None or r["id"] in chosen_ids]
    likely_ids = [r["id"] for r in rows if r["burned_in"]]
    unchecked = [r for r in rows if r["burned_in"] is None]
    if not look or len(unchecked) > LOOK_AT_MOST:
        return {"cases": likely_ids, "unknown": len(unchecked)}
    unknown, results = 0, []
    for row in unchecked:
        try:
            results.append((int(likely(read_image(row["path"], row["frame"]))), row["id"]))
        except (Unreadable, OSError):
            unknown += 1
    if results:
        with store.write() as db:
            db.conn.executemany("UPDATE cases SET burned_in = ? WHERE id = ?", results)
    return {"cases": sorted(likely_ids + [i for yes, i in results if yes]), "unknown": unknown}


def warning(checked: dict) -> str | None:
    """Returns a warning for people about a result of `among`, or None if there is nothing to warn about."""
    sentences = []
    if checked["cases"]:
        n = len(checked["cases"])
        noun = "case" if n == 1 else "cases"
        sentences.append(f"{n} {noun} may carry burned-in text (a name, a date): look before you pass pictures on")
    if checked["unknown"]:
        sentences.append(f"{checked['unknown']} cases were not looked at for burned-in text")
    return "; ".join(sentences) or None

"""Text burned into pictures: names and dates that de-identification cannot remap. It is looked for once, at import.

This only finds what is likely text; a person has to look before pictures are passed on. cases.burned_in: 1 likely, 0
none found, NULL not looked at (cases of an earlier version).
"""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np

from core.studio.db.store import Store
from core.studio.ingest.decode import read_image
from core.studio.ingest.unreadable import Unreadable

LOOK_AT_MOST = 2000  # cases not looked at yet, at one export; more of them are only counted


def likely(image: np.ndarray) -> bool:
    """Returns whether an image, uint8 (H, W, 3) RGB, likely has a line of text. Two scales: captions differ in size."""
    from core.engine.roi import WORKING_SIDE, find_text

    short = min(image.shape[:2])
    for side in {min(short, WORKING_SIDE), min(short, 2 * WORKING_SIDE)}:
        size = (max(1, round(image.shape[1] * side / short)), max(1, round(image.shape[0] * side / short)))
        small = image if side == short else cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        if find_text(np.ascontiguousarray(small)).any():
            return True
    return False


def among(store: Store, study: str, ids: Iterable[int] | None = None, look: bool = True) -> dict:
    """Finds cases with likely text, of those in `ids` or of the whole study: {"cases": [ids], "unknown": n}.

    Cases that were not looked at yet are looked at now if they are few; if not, or without `look`, they are counted.
    """
    wanted = None if ids is None else set(ids)
    rows = store.query(
        "SELECT id, path, frame, burned_in FROM cases WHERE study = ? AND burned_in IS NOT 0 ORDER BY id", [study]
    )
    rows = [r for r in rows if wanted is None or r["id"] in wanted]
    marked = [r["id"] for r in rows if r["burned_in"]]
    fresh = [r for r in rows if r["burned_in"] is None]
    if not look or len(fresh) > LOOK_AT_MOST:
        return {"cases": marked, "unknown": len(fresh)}
    unknown, looked = 0, []
    for row in fresh:
        try:
            looked.append((int(likely(read_image(row["path"], row["frame"]))), row["id"]))
        except (Unreadable, OSError):
            unknown += 1
    if looked:
        with store.write() as db:
            db.conn.executemany("UPDATE cases SET burned_in = ? WHERE id = ?", looked)
    return {"cases": sorted(marked + [i for yes, i in looked if yes]), "unknown": unknown}


def warning(checked: dict) -> str | None:
    """Returns a sentence for people about what `among` found, or None."""
    parts = []
    if checked["cases"]:
        n = len(checked["cases"])
        noun = "case" if n == 1 else "cases"
        parts.append(f"{n} {noun} may carry burned-in text (a name, a date): look before you pass pictures on")
    if checked["unknown"]:
        parts.append(f"{checked['unknown']} cases were not looked at for burned-in text")
    return "; ".join(parts) or None

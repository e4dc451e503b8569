"""Lesion masks: 1-bit PNG, lossless, at the image's own resolution; versions are added, never overwritten."""

from __future__ import annotations

import io
import os
import time

import numpy as np
from PIL import Image

from core.studio.db.store import Store, now
from core.studio.ingest.decode import read_raw
from core.studio.ingest.unreadable import Unreadable


def encode_mask(mask: np.ndarray) -> bytes:
    """Encodes a mask: (H, W) of 0 and not 0 -> 1-bit PNG."""
    out = io.BytesIO()
    Image.fromarray((np.asarray(mask) > 0).astype(np.uint8) * 255).convert("1", dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()


def decode_mask(png: bytes) -> np.ndarray:
    """Decodes a mask: 1-bit PNG -> uint8 (H, W) of 0 and 1."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("L")).astype(bool).astype(np.uint8)


def read_mask(path: str | os.PathLike, size: tuple[int, int] | None = None) -> np.ndarray:
    """Reads a mask file: uint8 (H, W) of 0 and 1. Raises Unreadable if it is empty or not of `size`.

    size: (width, height) of its image. Values up to 31 are taken for labels (all but 0 is lesion), larger ones for grey
    (above half is lesion).
    """
    values = read_raw(path)
    if values.ndim == 3:
        values = values.max(2)
    if size is not None and values.shape[::-1] != tuple(size):
        have = " x ".join(map(str, values.shape[::-1]))
        raise Unreadable(f"the mask is {have} pixels, its image {size[0]} x {size[1]}; the image was taken without it")
    top = values.max()
    mask = values > (0 if top < 32 else (32767 if top > 255 else 127))
    if not mask.any():
        raise Unreadable("the mask is empty; the image was taken without it")
    return mask.astype(np.uint8)


def add_mask(
    store: Store,
    case_id: int,
    mask: np.ndarray | bytes,
    source: str,
    reader: str | None = None,
    run: str | None = None,
    threshold: float | None = None,
    note: str = "",
    created: str | None = None,
) -> int:
    """Stores a mask (array or its PNG) as the case's next version; returns the version. created: now, unless given."""
    png = mask if isinstance(mask, bytes) else encode_mask(mask)
    with store.write() as db:
        query = "SELECT coalesce(max(version), 0) + 1 FROM lesion_masks WHERE case_id = ?"
        version = db.execute(query, [case_id]).fetchone()[0]
        # Numbered by the clock, in microseconds: one that follows the last would tell how many there are.
        last = db.execute("SELECT coalesce(max(id), 0) FROM lesion_masks").fetchone()[0]
        db.table("lesion_masks").insert(
            {
                "id": max(time.time_ns() // 1000, last + 1),
                "case_id": case_id,
                "version": version,
                "source": source,
                "reader": reader,
                "created": created or now(),
                "run": run,
                "threshold": threshold,
                "png": png,
                "note": note,
            }
        )
    return version


# Two kinds of mask. The reference is what a case's truth is held to be: the mask that a person made the reference by an
# act of its own, else the last one that was imported. All that readers save are readers' masks.

_REFERENCES = """SELECT m.case_id, m.id FROM lesion_masks m LEFT JOIN reference_masks r ON r.case_id = m.case_id
  WHERE CASE WHEN r.mask IS NULL THEN m.source = 'import' ELSE m.id = r.mask END"""


def reference_masks(store: Store, study: str) -> dict[int, int]:
    """Returns case id -> id of its reference mask, of all cases of the study that have one."""
    query = f"{_REFERENCES} AND m.case_id IN (SELECT id FROM cases WHERE study = ?) ORDER BY m.version"
    return {row["case_id"]: row["id"] for row in store.query(query, [study])}


def reference_mask(store: Store, case_id: int) -> int | None:
    """Returns the id of a case's reference mask; None if it has none."""
    row = store.one(f"{_REFERENCES} AND m.case_id = ? ORDER BY m.version DESC LIMIT 1", [case_id])
    return row["id"] if row else None


def get_mask(store: Store, mask_id: int) -> np.ndarray:
    """Reads one version of a mask by its id: uint8 (H, W) of 0 and 1."""
    return decode_mask(store.first("SELECT png FROM lesion_masks WHERE id = ?", [mask_id])["png"])

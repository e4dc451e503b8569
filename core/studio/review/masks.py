"""Lesion masks as versions: saving adds one with who, when and from what; nothing is overwritten."""

from __future__ import annotations

import hashlib

import numpy as np

from core.studio.db import audit
from core.studio.db.store import NotFound, Store
from core.studio.ingest.masks import add_mask, decode_mask, encode_mask
from core.studio.review import drafts
from core.studio.review.decisions import case_row

_COLUMNS = "id, case_id, version, source, reader, created, run, threshold, note"


def versions(store: Store, case_id: int) -> list[dict]:
    """The case's versions, newest first, without their pixels."""
    return store.query(f"SELECT {_COLUMNS} FROM lesion_masks WHERE case_id = ? ORDER BY version DESC", [case_id])


def version(store: Store, mask_id: int) -> dict:
    """One version with `png`. NotFound if there is none."""
    row = store.one("SELECT * FROM lesion_masks WHERE id = ?", [mask_id])
    if row is None:
        raise NotFound(f"There is no lesion mask {mask_id}.")
    return row


def latest(store: Store, case_id: int) -> dict | None:
    """The newest version with `png`, or None."""
    return store.one("SELECT * FROM lesion_masks WHERE case_id = ? ORDER BY version DESC LIMIT 1", [case_id])


def save(
    store: Store,
    case_id: int,
    mask: np.ndarray,
    reader: str,
    *,
    source: str = "hand",
    run: str | None = None,
    threshold: float | None = None,
    note: str = "",
) -> dict:
    """mask (H, W) of the image's own size -> {"mask", "version", "pixels"}; ValueError if the size differs."""
    case = case_row(store, case_id)
    mask = np.asarray(mask) > 0
    if mask.shape != (case["height"], case["width"]):
        have, want = (" x ".join(map(str, s)) for s in (mask.shape[::-1], (case["width"], case["height"])))
        raise ValueError(f"the mask is {have} pixels, its image {want}")
    if source == "run" and run is None:
        raise ValueError("a mask taken from a heat map names its run")
    return _add(store, case, encode_mask(mask), reader, source, run, threshold, note, int(mask.sum()))


def restore(store: Store, mask_id: int, reader: str) -> dict:
    """An earlier version, byte for byte, as the newest one."""
    old = version(store, mask_id)
    case = case_row(store, old["case_id"])
    note = f"version {old['version']} restored" + (f": {old['note']}" if old["note"] else "")
    source = "run" if old["source"] == "run" else "hand"
    pixels = int(decode_mask(old["png"]).sum())
    return _add(store, case, old["png"], reader, source, old["run"], old["threshold"], note, pixels)


def _add(store, case, png, reader, source, run, threshold, note, pixels) -> dict:
    with store.write():
        before = latest(store, case["id"])
        number = add_mask(store, case["id"], png, source, reader, run, threshold, note)
        row = store.one("SELECT id FROM lesion_masks WHERE case_id = ? AND version = ?", [case["id"], number])
        drafts.drop(store, case["id"], reader)
        audit.record(
            store,
            reader,
            "mask",
            study=case["study"],
            case_id=case["id"],
            before=before and {"mask": before["id"], "version": before["version"]},
            after={
                "mask": row["id"],
                "version": number,
                "source": source,
                "run": run,
                "threshold": threshold,
                "pixels": pixels,
                "sha256": hashlib.sha256(png).hexdigest(),
            },
        )
    return {"mask": row["id"], "version": number, "pixels": pixels}


def pixels(store: Store, mask_id: int) -> np.ndarray:
    """uint8 (H, W) of 0 and 1."""
    return decode_mask(version(store, mask_id)["png"])

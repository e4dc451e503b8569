"""Keyed digests of the images that were erased from this home, so that no import silently adds them again."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path

from core.studio.db import audit
from core.studio.db.store import Row, Store
from core.studio.ingest import dicom
from core.studio.ingest.layouts import Question
from core.studio.ingest.reader import Found, printable
from core.studio.ingest.unreadable import Unreadable

KEY = "erased key"  # the setting that holds the key of the digests
REASON = "it was erased from this home; `study add --again` imports it anyway"


class Erased(ValueError):
    """Raised if images are not imported because one of them was erased from this home."""


def uid_of(path: Path) -> str | None:
    """Reads the SOP instance UID of a DICOM file; None for any other file, or a missing one."""
    try:
        return dicom.text(dicom.header(path), "SOPInstanceUID") or None if dicom.is_dicom(path) else None
    except (OSError, Unreadable):
        return None


def digests(store: Store, names: Iterable[str | None]) -> list[str]:
    """Computes the keyed digests of contents (their SHA-256) and SOP instance UIDs; None is skipped."""
    key = audit.key(store, KEY)
    return [hmac.new(key, name.encode(), hashlib.sha256).hexdigest() for name in names if name]


def known(store: Store, *names: str | None) -> bool:
    """Returns whether an image with one of these SHA-256 or SOP instance UIDs was erased; None is skipped."""
    gone = {row["digest"] for row in store.query("SELECT digest FROM erased")}
    return bool(gone) and not gone.isdisjoint(digests(store, names))


def sift(store: Store, images: list[Found], rejected: list[Row], again: bool | None) -> list[Found]:
    """Returns the images that were not erased; the files of the others are added to `rejected`.

    again: True returns all images; None raises Question if any was erased; False only returns the others.
    """
    gone = {f.entry.path for f in images if not again and known(store, f.row["sha256"], f.uid)}
    if gone and again is None:
        raise Question("Nothing was stored: some of the images were erased from this home.", erased=len(gone))
    rejected += [{"path": printable(path), "reason": REASON} for path in sorted(gone)]
    return [f for f in images if f.entry.path not in gone]


def take(store: Store, names: Iterable[str | None], again: bool | None = False) -> None:
    """Deletes the digests of images (`names`: SHA-256 and UIDs) that the caller's transaction imports `again`.

    Raises Erased if one of them was erased, possibly after it was read, and `again` is not True.
    """
    names = list(names)
    if known(store, *names):
        if not again:
            raise Erased(f"Nothing was imported, because of one image: {REASON}.")
        store.db.conn.executemany("DELETE FROM erased WHERE digest = ?", [(d,) for d in digests(store, names)])

"""Stores keyed digests of images that were erased from this home, so that no import adds them again without asking."""

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

KEY = "erased key"  # name of the setting that contains the key of the digests
REASON = "it was erased from this home; `study add --again` imports it anyway"


class Erased(ValueError):
    """Raised if an import stores nothing because one of the images was erased from this home."""


def uid_of(path: Path) -> str | None:
    """Returns the SOP instance UID of a DICOM file, or None if the file is missing or not DICOM."""
    try:
        return dicom.text(dicom.header(path), "SOPInstanceUID") or None if dicom.is_dicom(path) else None
    except (OSError, Unreadable):
        return None


def digests(store: Store, names: Iterable[str | None]) -> list[str]:
    """Returns the keyed digests of SHA-256 hashes and SOP instance UIDs. Missing and empty names are skipped."""
    key = audit.key(store, KEY)
    return [hmac.new(key, name.encode(), hashlib.sha256).hexdigest() for name in names if name]


def known(store: Store, *names: str | None) -> bool:
    """Returns whether an image with one of the given SHA-256 hashes or SOP instance UIDs was erased."""
    gone = {row["digest"] for row in store.query("SELECT digest FROM erased")}
    return bool(gone) and not gone.isdisjoint(digests(store, names))


def reject_erased(store: Store, images: list[Found], rejected: list[Row], again: bool | None) -> list[Found]:
    """Returns the images that may be imported, and adds the files of erased images to `rejected`.

    If `again` is True, erased images are imported again; if False, they are rejected; if None, Question is raised.
    """
    gone = {f.entry.path for f in images if not again and known(store, f.row["sha256"], f.uid)}
    if gone and again is None:
        raise Question("Nothing was stored: some of the images were erased from this home.", erased=len(gone))
    rejected += [{"path": printable(path), "reason": REASON} for path in sorted(gone)]
    return [f for f in images if f.entry.path not in gone]


def forget_erased(store: Store, names: Iterable[str | None], again: bool | None = False) -> None:
    """Deletes the digests of `names` (SHA-256 hashes or SOP instance UIDs) in the transaction that imports the images.

    Raises Erased if `again` is not True and one of the images was erased, possibly after the import had read it.
    """
    names = list(names)
    if known(store, *names):
        if not again:
            raise Erased(f"Nothing was imported, because of one image: {REASON}.")
        store.db.conn.executemany("DELETE FROM erased WHERE digest = ?", [(d,) for d in digests(store, names)])

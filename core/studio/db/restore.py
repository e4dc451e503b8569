"""Restoring a backup in the place of a home's database, which is kept aside."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from core.studio.db import audit, backup, opening
from core.studio.db.home import Home


def restore(home: Home, file: Path, by: str = "command line") -> Path | None:
    """Puts a backup in the place of the database; returns where the one that was there is kept, if there was one.

    Raises BadBackup, and changes nothing, if the backup is not sound. Whoever has the database open goes on with the
    restored one.
    """
    described = backup.check(file)
    aside = None
    if home.db.exists() and home.db.stat().st_size:
        with contextlib.suppress(backup.BadBackup, sqlite3.DatabaseError):
            aside = home.backups / backup.backup(home, kind=backup.ASIDE).file
        if aside is None:
            aside = _moved_aside(home)
    backup.copy(file, home.db)
    store = opening.open(home)
    try:
        with store.write():
            after = {"file": described.file, "events": described.events, "head": described.head}
            audit.record(store, by, "restore", before={"kept": aside and aside.name}, after=after)
    finally:
        store.close()
    return aside


def _moved_aside(home: Home) -> Path:
    """A database that cannot even be read is kept as its files are."""
    home.backups.mkdir(parents=True, exist_ok=True)
    aside = backup.free(home.backups, backup.ASIDE)
    for suffix in ("-wal", "-shm", ""):
        file = home.db.with_name(home.db.name + suffix)
        if file.exists():
            file.replace(aside.with_name(aside.name + suffix))
    return aside

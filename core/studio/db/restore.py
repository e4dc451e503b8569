"""Restoring a backup in the place of a home's database, which is kept aside."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from core.studio.db import audit, backup, opening
from core.studio.db.home import Home
from core.studio.db.store import Row, Store


def restore(home: Home, file: Path, by: str = "command line") -> Path | None:
    """Puts a backup in the place of the database; returns where the one that was there is kept, if there was one.

    Whoever has the database open goes on with the restored one. Nobody can write between the copy that is kept aside
    and the restored database, so whatever was answered is in one of the two. Raises BadBackup, and changes nothing, if
    the backup is not sound.
    """
    described = backup.check(file)
    aside: Path | None = None

    def keep() -> None:
        nonlocal aside
        aside = home.backups / backup.backup(home, kind=backup.ASIDE).file

    if not (home.db.exists() and home.db.stat().st_size):
        backup.copy(file, home.db)
    else:
        try:
            backup.copy(file, home.db, once_alone=keep)
        except sqlite3.OperationalError:
            raise
        except (backup.BadBackup, sqlite3.DatabaseError):
            aside = _moved_aside(home)
            backup.copy(file, home.db)
    store = opening.open(home)
    try:
        with store.write():
            if aside is not None:
                _carry_over(store, aside)
            after = {"file": described.file, "events": described.events, "head": described.head}
            audit.record(store, by, "restore", before={"kept": aside and aside.name}, after=after)
    finally:
        store.close()
    return aside


def _carry_over(store: Store, aside: Path) -> None:
    """Takes over what must not go back in time: which ids were given, and which images were erased."""
    tables: dict[str, list[Row]] = {"sqlite_sequence": [], "erased": [], "settings": []}
    try:
        before = Store.reading(aside)
        try:
            for table in tables:
                tables[table] = before.query(f"SELECT * FROM {table}")
        finally:
            before.close()
    except sqlite3.DatabaseError:  # it could not be read, and was moved aside
        return
    for row in tables["sqlite_sequence"]:
        numbers = [row["seq"], row["name"]]
        if not store.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", numbers).rowcount:
            store.execute("INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)", numbers)
    if tables["erased"]:
        key = next(row for row in tables["settings"] if row["key"] == "erased key")
        store.execute("INSERT OR REPLACE INTO settings (key, value) VALUES (:key, :value)", key)
        store.db.conn.executemany("INSERT OR IGNORE INTO erased (digest) VALUES (:digest)", tables["erased"])


def _moved_aside(home: Home) -> Path:
    """A database that cannot even be read is kept as its files are."""
    home.backups.mkdir(parents=True, exist_ok=True)
    aside = backup.free(home.backups, backup.ASIDE)
    for suffix in ("-wal", "-shm", ""):
        file = home.db.with_name(home.db.name + suffix)
        if file.exists():
            file.replace(aside.with_name(aside.name + suffix))
    return aside

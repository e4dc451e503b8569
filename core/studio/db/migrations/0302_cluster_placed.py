"""New images projected onto a finished map."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute(
        "CREATE TABLE cluster_placed (key TEXT PRIMARY KEY,"
        " map TEXT NOT NULL REFERENCES cluster_maps(key) ON DELETE CASCADE, title TEXT NOT NULL,"
        " config TEXT NOT NULL, created TEXT NOT NULL, job INTEGER, images INTEGER)"
    )

"""Settings of a strong augmentation by name, in versions."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute(
        "CREATE TABLE presets (id INTEGER PRIMARY KEY, name TEXT NOT NULL, version INTEGER NOT NULL, "
        "strong TEXT NOT NULL, config TEXT NOT NULL, note TEXT NOT NULL DEFAULT '', reader TEXT, "
        "created TEXT NOT NULL, removed INTEGER NOT NULL DEFAULT 0, UNIQUE (name, version))"
    )

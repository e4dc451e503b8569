"""Saved views of a map."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute(
        "CREATE TABLE cluster_views (id INTEGER PRIMARY KEY,"
        " study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, name TEXT NOT NULL, reader TEXT NOT NULL,"
        " created TEXT NOT NULL, state TEXT NOT NULL, UNIQUE (study, name))"
    )

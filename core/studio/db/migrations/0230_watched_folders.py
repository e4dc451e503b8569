"""Watched folders and the files that came in through them."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute(
        "CREATE TABLE watches (study TEXT PRIMARY KEY REFERENCES studies(id) ON DELETE CASCADE, folder TEXT NOT NULL, "
        "run TEXT, active INTEGER NOT NULL DEFAULT 1, copy INTEGER NOT NULL DEFAULT 0, looked TEXT, "
        "message TEXT NOT NULL DEFAULT '', changed TEXT)"
    )
    db.conn.execute(
        "CREATE TABLE arrivals (study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, path TEXT NOT NULL, "
        "size INTEGER NOT NULL, mtime INTEGER NOT NULL, since REAL NOT NULL, state TEXT NOT NULL "
        "CHECK (state IN ('waiting', 'ready', 'taken', 'double', 'failed')), tries INTEGER NOT NULL DEFAULT 0, "
        "note TEXT NOT NULL DEFAULT '', at TEXT NOT NULL, PRIMARY KEY (study, path)) WITHOUT ROWID"
    )
    db.conn.execute("CREATE INDEX arrivals_by_state ON arrivals (study, state, at)")

"""Maps of a feature space."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute(
        "CREATE TABLE cluster_maps (key TEXT PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE,"
        " run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, config TEXT NOT NULL, created TEXT NOT NULL,"
        " job INTEGER, points INTEGER, epochs TEXT, seconds REAL)"
    )
    db.conn.execute("CREATE INDEX cluster_maps_by_study ON cluster_maps (study, created)")

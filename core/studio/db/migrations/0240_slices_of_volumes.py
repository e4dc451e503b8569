"""Where a case lies in its volume."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    for column in ("series TEXT", "place REAL", "slice INTEGER"):
        db.conn.execute(f"ALTER TABLE cases ADD COLUMN {column}")
    db.conn.execute("CREATE INDEX cases_by_series ON cases (study, series, place, slice) WHERE series IS NOT NULL")

"""Operating points of a run that were chosen: one a way of choosing, of which the strongest decides what is flagged."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute(
        """CREATE TABLE operating_points (
  run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, source TEXT NOT NULL, threshold REAL NOT NULL,
  labels INTEGER NOT NULL, reader TEXT NOT NULL, created TEXT NOT NULL, PRIMARY KEY (run, source))"""
    )

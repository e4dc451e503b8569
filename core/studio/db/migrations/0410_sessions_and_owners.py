"""Who is signed in, and who made a run, a map, a view or a preset."""

from __future__ import annotations

import sqlite_utils

STATEMENTS = [
    # `hash` is SHA-256 of the secret in the browser's cookie: the database alone lets nobody in.
    """CREATE TABLE sessions (hash TEXT PRIMARY KEY, reader TEXT NOT NULL, created TEXT NOT NULL,
  expires TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX sessions_by_reader ON sessions (reader)",
    """CREATE TABLE owners (kind TEXT NOT NULL, id TEXT NOT NULL, reader TEXT NOT NULL, created TEXT NOT NULL,
  PRIMARY KEY (kind, id)) WITHOUT ROWID""",
    "INSERT INTO owners SELECT 'view', CAST(id AS TEXT), reader, created FROM cluster_views",
    """INSERT OR IGNORE INTO owners SELECT 'preset', name, reader, created FROM presets
  WHERE reader IS NOT NULL AND removed = 0 ORDER BY version DESC""",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)

"""When a run or a study was put into the bin, and the folders of this machine that may be imported from."""

from __future__ import annotations

import sqlite_utils

STATEMENTS = [
    "ALTER TABLE studies ADD COLUMN binned TEXT",
    "ALTER TABLE runs ADD COLUMN binned TEXT",
    "CREATE TABLE roots (folder TEXT PRIMARY KEY, named TEXT NOT NULL, by TEXT NOT NULL) WITHOUT ROWID",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)

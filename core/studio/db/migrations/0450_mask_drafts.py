"""Drawings that a reader has begun and not saved: one for each case and reader."""

from __future__ import annotations

import sqlite_utils

STATEMENTS = [
    """CREATE TABLE mask_drafts (case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, reader TEXT NOT NULL,
  body BLOB NOT NULL, updated TEXT NOT NULL, PRIMARY KEY (reader, case_id)) WITHOUT ROWID""",
    "CREATE INDEX mask_drafts_by_case ON mask_drafts (case_id)",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)

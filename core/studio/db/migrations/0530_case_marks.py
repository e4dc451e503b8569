"""What a reader says of the marks on a case: whether all is marked, and places that are normal."""

from __future__ import annotations

import sqlite_utils

STATEMENTS = [
    # normal: a mask as in lesion_masks, of the image's own size, or NULL
    """CREATE TABLE case_marks (case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, reader TEXT NOT NULL,
  finished INTEGER NOT NULL DEFAULT 0, normal BLOB, updated TEXT NOT NULL, PRIMARY KEY (reader, case_id))
  WITHOUT ROWID""",
    "CREATE INDEX case_marks_by_case ON case_marks (case_id)",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)

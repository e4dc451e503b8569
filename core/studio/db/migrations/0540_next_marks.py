"""The order in which cases teach most, of each run that has learnt from marks."""

from __future__ import annotations

import sqlite_utils

STATEMENTS = [
    # value: the larger, the sooner the case is shown
    """CREATE TABLE next_marks (run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, value REAL NOT NULL, why TEXT NOT NULL,
  PRIMARY KEY (run, case_id)) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX next_marks_by_value ON next_marks (run, value, case_id)",
    "CREATE INDEX next_marks_by_case ON next_marks (case_id)",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)

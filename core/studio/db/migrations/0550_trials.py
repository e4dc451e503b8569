"""Reader trials: their plans, cases with the reference standard, each reader's parts, and what was rated and marked."""

from __future__ import annotations

import sqlite_utils

STATEMENTS = [
    # plan: JSON (core/studio/trials/plan.py). frozen: when the first decision of any reader was stored.
    """CREATE TABLE trials (
  id INTEGER PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, name TEXT NOT NULL,
  plan TEXT NOT NULL, run TEXT, digest TEXT NOT NULL, made_by TEXT NOT NULL, created TEXT NOT NULL, started TEXT,
  frozen TEXT, closed TEXT)""",
    "CREATE INDEX trials_by_study ON trials (study)",
    # truth, mask: of the reference standard on the day of the plan.
    """CREATE TABLE trial_cases (trial INTEGER NOT NULL REFERENCES trials(id) ON DELETE CASCADE,
  position INTEGER NOT NULL, case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, truth TEXT NOT NULL,
  mask INTEGER, repeated INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (trial, position)) WITHOUT ROWID""",
    "CREATE INDEX trial_cases_by_case ON trial_cases (case_id)",
    """CREATE TABLE trial_parts (id INTEGER PRIMARY KEY,
  trial INTEGER NOT NULL REFERENCES trials(id) ON DELETE CASCADE, reader TEXT NOT NULL, number INTEGER NOT NULL,
  arm TEXT NOT NULL, session INTEGER UNIQUE REFERENCES reading_sessions(id))""",
    "CREATE INDEX trial_parts_by_reader ON trial_parts (reader, trial, number)",
    "CREATE INDEX trial_parts_by_trial ON trial_parts (trial)",
    # marks: JSON [[x0, y0, x1, y1, rating], ...] as they stood when the decision was stored.
    """CREATE TABLE trial_reads (review INTEGER PRIMARY KEY REFERENCES reviews(id) ON DELETE CASCADE,
  part INTEGER NOT NULL REFERENCES trial_parts(id) ON DELETE CASCADE, rating REAL, marks TEXT NOT NULL)""",
    "CREATE INDEX trial_reads_by_part ON trial_reads (part)",
    """CREATE TABLE trial_marks (finding INTEGER PRIMARY KEY REFERENCES findings(id) ON DELETE CASCADE,
  rating REAL NOT NULL)""",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)

"""Reading sessions: which cases a reader reads, in which order, under which names, and whether blind first."""

from __future__ import annotations

import sqlite_utils

STATEMENTS = [
    # first_review: the last review that was there before; what comes behind it may belong to the session.
    """CREATE TABLE reading_sessions (
  id INTEGER PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, reader TEXT NOT NULL,
  blind INTEGER NOT NULL, neutral INTEGER NOT NULL, shuffled INTEGER NOT NULL, choice TEXT NOT NULL, run TEXT,
  first_review INTEGER NOT NULL, last_review INTEGER, created TEXT NOT NULL, ended TEXT)""",
    "CREATE INDEX reading_sessions_by_reader ON reading_sessions (reader, ended, study)",
    """CREATE TABLE reading_session_cases (session INTEGER NOT NULL REFERENCES reading_sessions(id) ON DELETE CASCADE,
  position INTEGER NOT NULL, case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE)""",
    "CREATE UNIQUE INDEX reading_session_cases_by_position ON reading_session_cases (session, position, case_id)",
    "CREATE UNIQUE INDEX reading_session_cases_by_case ON reading_session_cases (case_id, session)",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)

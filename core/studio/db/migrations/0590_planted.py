"""Lesions planted into held-out normals, the sessions that they are mixed into, and what readers said of them: kept
apart from cases and reviews, so that no figure, export or learning can meet them."""

from __future__ import annotations

import sqlite_utils

STATEMENTS = [
    # patch: PNG of what stands in place of the image from x, y on. reading: columns of `readings`, JSON, of the run.
    """CREATE TABLE planted_lesions (id INTEGER PRIMARY KEY,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, seed INTEGER NOT NULL, size REAL NOT NULL,
  contrast REAL NOT NULL, x INTEGER NOT NULL, y INTEGER NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
  patch BLOB NOT NULL, run TEXT NOT NULL, reading TEXT NOT NULL, map BLOB NOT NULL)""",
    "CREATE INDEX planted_lesions_by_case ON planted_lesions (case_id)",
    # Cases of whose images a lesion may hold a piece: it goes when one of them does.
    """CREATE TABLE planted_donors (lesion INTEGER NOT NULL REFERENCES planted_lesions(id) ON DELETE CASCADE,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, PRIMARY KEY (lesion, case_id)) WITHOUT ROWID""",
    "CREATE INDEX planted_donors_by_case ON planted_donors (case_id)",
    """CREATE TRIGGER planted_donors_go AFTER DELETE ON planted_donors
  BEGIN DELETE FROM planted_lesions WHERE id = OLD.lesion; END""",
    """CREATE TABLE planted_cases (session INTEGER NOT NULL REFERENCES reading_sessions(id) ON DELETE CASCADE,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE,
  lesion INTEGER NOT NULL REFERENCES planted_lesions(id) ON DELETE CASCADE,
  PRIMARY KEY (session, case_id)) WITHOUT ROWID""",
    # A case whose lesion goes leaves the list: without it, it would be read as any other.
    """CREATE TRIGGER planted_cases_go AFTER DELETE ON planted_cases
  BEGIN DELETE FROM reading_session_cases WHERE session = OLD.session AND case_id = OLD.case_id; END""",
    "CREATE INDEX planted_cases_by_case ON planted_cases (case_id)",
    "CREATE INDEX planted_cases_by_lesion ON planted_cases (lesion)",
    """CREATE TABLE planted_reads (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, case_id INTEGER NOT NULL,
  stage TEXT NOT NULL, decision TEXT NOT NULL, comment TEXT NOT NULL, seconds REAL, created TEXT NOT NULL,
  FOREIGN KEY (session, case_id) REFERENCES planted_cases(session, case_id) ON DELETE CASCADE)""",
    "CREATE INDEX planted_reads_by_case ON planted_reads (session, case_id, id)",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)

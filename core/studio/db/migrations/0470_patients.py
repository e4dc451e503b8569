"""Whose image each case is: a keyed hash of the patient, NULL where nobody says."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute("ALTER TABLE cases ADD COLUMN patient TEXT")
    db.conn.execute("CREATE INDEX cases_by_patient ON cases (study, patient) WHERE patient IS NOT NULL")

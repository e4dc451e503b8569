"""The worklist in the order of its reader's decisions."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute("CREATE INDEX reader_words_by_decision ON reader_words (reader, study, decision, case_id)")

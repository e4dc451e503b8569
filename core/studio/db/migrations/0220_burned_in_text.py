"""Whether an image is likely to hold burned-in text."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute("ALTER TABLE cases ADD COLUMN burned_in INTEGER")

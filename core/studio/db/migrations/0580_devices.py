"""The device that an image is of, in its header's words; NULL where none is named."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute("ALTER TABLE cases ADD COLUMN device TEXT")

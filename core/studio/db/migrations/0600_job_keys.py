"""What a job was asked for: the same asked again while it waits or runs is the same job."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute("ALTER TABLE jobs ADD COLUMN key TEXT")
    db.conn.execute("CREATE INDEX jobs_by_key ON jobs (key)")

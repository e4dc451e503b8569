"""Two queues of jobs instead of one. What waits keeps its place, but new cases: those waited for a training only."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute("ALTER TABLE jobs ADD COLUMN lane TEXT NOT NULL DEFAULT 'long' CHECK (lane IN ('long', 'short'))")
    db.conn.execute("UPDATE jobs SET lane = 'short' WHERE verb = 'intake' AND status != 'running'")
    db.conn.execute("DROP INDEX jobs_one_running")
    db.conn.execute("CREATE UNIQUE INDEX jobs_one_running ON jobs (lane) WHERE status = 'running'")

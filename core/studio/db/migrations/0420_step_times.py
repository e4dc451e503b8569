"""When each step of a job began and how long it took: from these the page says how long a job still takes."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    # began: seconds since 1970. share: of the step, done already when it began (a resumed training).
    db.conn.execute(
        "CREATE TABLE step_times (id INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE, "
        "position INTEGER NOT NULL, began REAL NOT NULL, share REAL NOT NULL DEFAULT 0, seconds REAL)"
    )
    db.conn.execute("CREATE INDEX step_times_by_job ON step_times (job, position)")

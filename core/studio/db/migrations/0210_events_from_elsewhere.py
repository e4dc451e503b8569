"""Audit events that came with a bundle from another home."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute(
        "CREATE TABLE foreign_events (bundle TEXT NOT NULL, id INTEGER NOT NULL, at TEXT, who TEXT, kind TEXT, "
        "study TEXT, "
        "case_id INTEGER, before TEXT, after TEXT, shown TEXT, seconds REAL, previous TEXT NOT NULL, hash TEXT "
        "NOT NULL, "
        "PRIMARY KEY (bundle, id)) WITHOUT ROWID"
    )
    for act in ("UPDATE", "DELETE"):
        db.conn.execute(
            f"CREATE TRIGGER foreign_events_no_{act.lower()} BEFORE {act} ON foreign_events "
            "BEGIN SELECT RAISE(ABORT, 'the audit trail is never changed'); END"
        )

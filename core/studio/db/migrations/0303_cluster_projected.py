"""`cluster_placed` gets the word that the rest uses: images are projected onto a map."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute("ALTER TABLE cluster_placed RENAME TO cluster_projected")

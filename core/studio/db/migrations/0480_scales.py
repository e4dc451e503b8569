"""How a case of more than 8 bits is shown: [low, high], the stored values that become 0 and 255; else NULL."""

from __future__ import annotations

import sqlite_utils


def apply(db: sqlite_utils.Database) -> None:
    db.conn.execute("ALTER TABLE cases ADD COLUMN scale TEXT")

"""The order and the numbers under which a reader knows cases whose names are hidden: drawn at random once, and kept.

One order for each reader and study, and one for each reading session. A case that is imported later leaves the order
incomplete (`whole` 0) until it is next asked for. A reading session keeps the secret of its neutral names.
"""

from __future__ import annotations

import hashlib
import json
import secrets

import sqlite_utils

STATEMENTS = [
    """CREATE TABLE neutral_orders (
  id INTEGER PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, reader TEXT NOT NULL,
  session INTEGER REFERENCES reading_sessions(id) ON DELETE CASCADE, secret TEXT NOT NULL,
  whole INTEGER NOT NULL DEFAULT 1)""",
    "CREATE UNIQUE INDEX neutral_orders_by_reader ON neutral_orders (reader, study, coalesce(session, 0))",
    "CREATE INDEX neutral_orders_by_study ON neutral_orders (study)",
    """CREATE TABLE neutral_cases (list INTEGER NOT NULL REFERENCES neutral_orders(id) ON DELETE CASCADE,
  position INTEGER NOT NULL, case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE)""",
    "CREATE UNIQUE INDEX neutral_cases_by_position ON neutral_cases (list, position, case_id)",
    "CREATE UNIQUE INDEX neutral_cases_by_case ON neutral_cases (case_id, list, position)",
    """CREATE TRIGGER neutral_orders_incomplete AFTER INSERT ON cases BEGIN
  UPDATE neutral_orders SET whole = 0 WHERE study = NEW.study AND whole = 1; END""",
    "ALTER TABLE reading_sessions ADD COLUMN secret TEXT NOT NULL DEFAULT ''",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)
    # Names that were printed stay: they were made of a key of the home and the session's number.
    setting = db.conn.execute("SELECT value FROM settings WHERE key = 'alias key'").fetchone()
    home = bytes.fromhex(json.loads(setting[0])) if setting else secrets.token_bytes(32)
    for (number,) in db.conn.execute("SELECT id FROM reading_sessions").fetchall():
        secret = hashlib.blake2b(f"names\0{number}".encode(), key=home, digest_size=32).hexdigest()
        db.conn.execute("UPDATE reading_sessions SET secret = ? WHERE id = ?", [secret, number])
    db.conn.execute("DELETE FROM settings WHERE key = 'alias key'")

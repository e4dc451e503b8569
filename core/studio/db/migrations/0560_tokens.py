"""Tokens with which programs sign in as a reader; only their hashes are kept."""

from __future__ import annotations

import sqlite_utils

STATEMENTS = [
    "CREATE TABLE tokens (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, reader TEXT NOT NULL, "
    "name TEXT NOT NULL, created TEXT NOT NULL)",
    "CREATE INDEX tokens_by_reader ON tokens (reader)",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)

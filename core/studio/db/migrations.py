"""The version of a database, and the steps that bring an older one to `schema.sql`.

A new home gets `schema.sql`. Whoever changes that file adds a step here, which makes the same change in a home that
holds data: a function with `@step(N)`, N being the next version. All steps that are due run in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from core.studio.db.home import BadHome

SCHEMA = Path(__file__).with_name("schema.sql")
Step = Callable[[sqlite3.Connection], None]
STEPS: dict[int, Step] = {}  # by the version that the step leads to; 1 is the schema of version 1.0


def step(version: int) -> Callable[[Step], Step]:
    """Registers the function that brings a database from the version before to `version`."""

    def register(function: Step) -> Step:
        if version != latest() + 1:
            raise ValueError(f"step {version} does not follow version {latest()}")
        STEPS[version] = function
        return function

    return register


def latest() -> int:
    """Returns the version of `schema.sql`."""
    return max(STEPS, default=1)


def version_of(conn: sqlite3.Connection) -> int:
    """Returns the version of a database, 0 for an empty one.

    Raises BadHome if it was made by version 0.2 or older, or by one that is newer than this.
    """
    version = int(conn.execute("PRAGMA user_version").fetchone()[0])
    if not version and conn.execute("SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'").fetchone():
        raise BadHome(
            "this database was made by version 0.2 or older, which this version does not read; "
            "keep it for that version and choose another folder with --home"
        )
    if version > latest():
        raise BadHome(f"this database was made by a newer version (schema {version}): install that one to open it")
    return version


def migrate(conn: sqlite3.Connection, before: Callable[[], object] | None = None) -> None:
    """Applies the schema to an empty database, and the steps that are due to an older one.

    Two processes may call this at once: the second waits, then finds nothing to do.

    Args:
        conn: the database, outside of a transaction.
        before: called first if the database holds anything that a step could harm.

    Raises:
        BadHome: as `version_of`; nothing is changed.
    """
    found = version_of(conn)
    if found == latest():
        return
    if found and before is not None:
        before()
    conn.execute("BEGIN IMMEDIATE")
    try:
        found = version_of(conn)
        for statement in statements(SCHEMA.read_text("utf-8")) if not found else ():
            conn.execute(statement)
        for version in sorted(STEPS):
            if 0 < found < version:
                STEPS[version](conn)
        conn.execute(f"PRAGMA user_version = {latest()}")
    except BaseException:
        conn.execute("ROLLBACK")
        raise
    conn.execute("COMMIT")


def statements(script: str) -> Iterator[str]:
    """Splits a script into its statements. (`executescript` would commit the transaction that a step runs in.)"""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""

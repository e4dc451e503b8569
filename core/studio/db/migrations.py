"""Reads the schema version of a database, and migrates older databases to the schema in `schema.sql`.

`schema.sql` creates the database of a new home. Every change to it needs a step here that makes the same change in
existing databases: a function with `@step(N)`, where N is the next version. All pending steps run in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from core.studio.db.home import BadHome

SCHEMA = Path(__file__).with_name("schema.sql")
Step = Callable[[sqlite3.Connection], None]
STEPS: dict[int, Step] = {}  # by the resulting schema version; 1 is the schema of version 1.0


def step(version: int) -> Callable[[Step], Step]:
    """Registers the decorated function as the step from the previous schema version to `version`."""

    def register(function: Step) -> Step:
        if version != latest() + 1:
            raise ValueError(f"step {version} does not follow version {latest()}")
        STEPS[version] = function
        return function

    return register


def latest() -> int:
    """Returns the latest schema version, which is the version of `schema.sql`."""
    return max(STEPS, default=1)


def version_of(conn: sqlite3.Connection) -> int:
    """Returns the schema version of a database, or 0 if it is empty. Raises BadHome if a newer version created it."""
    version = int(conn.execute("PRAGMA user_version").fetchone()[0])
    if version > latest():
        raise BadHome(f"this database needs a newer version (schema {version}): install that version of the studio")
    return version


def migrate(conn: sqlite3.Connection, before: Callable[[], object]) -> None:
    """Creates the tables of an empty database, or upgrades an older one. Call this outside of any transaction.

    `before` is called before an upgrade. If two processes call this at the same time, the second one waits and then
    finds nothing to do. Raises BadHome, and changes nothing, if a newer version created the database.
    """
    version = version_of(conn)
    if version == latest():
        return
    if version:
        before()
    conn.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(conn)
        for statement in statements(SCHEMA.read_text("utf-8")) if not version else ():
            conn.execute(statement)
        for number in sorted(STEPS):
            if 0 < version < number:
                STEPS[number](conn)
        conn.execute(f"PRAGMA user_version = {latest()}")
    except BaseException:
        conn.execute("ROLLBACK")
        raise
    conn.execute("COMMIT")


def statements(script: str) -> Iterator[str]:
    """Yields the statements of an SQL script one by one, because `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@step(2)
def _add_matches(conn: sqlite3.Connection) -> None:
    conn.execute(next(text for text in statements(SCHEMA.read_text("utf-8")) if "CREATE TABLE matches" in text))

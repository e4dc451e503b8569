"""The version of a database, and the steps that migrate older ones to `schema.sql`.

A new home is created by `schema.sql`. A change of that file needs a step here that makes the same change in existing
homes: a function with `@step(N)`, where N is the next version. All due steps run in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from core.studio.db.home import BadHome

SCHEMA = Path(__file__).with_name("schema.sql")
Step = Callable[[sqlite3.Connection], None]
STEPS: dict[int, Step] = {}  # by the resulting version; 1 is the schema of version 1.0


def step(version: int) -> Callable[[Step], Step]:
    """Registers the function that migrates a database from the previous version to `version`."""

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

    Raises BadHome if the database was created by version 0.2 or older, or by a newer version than this one.
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
    """Applies the schema to an empty database, and the due steps to an older one.

    If two processes call this at once, the second waits and then finds nothing to do.

    Args:
        conn: The database, outside of a transaction.
        before: Called first if the database is not empty.

    Raises:
        BadHome: As `version_of`; nothing is changed.
    """
    version = version_of(conn)
    if version == latest():
        return
    if version and before is not None:
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
    """Splits a script into statements, because `executescript` would commit the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@step(2)
def _add_matches(conn: sqlite3.Connection) -> None:
    """Adds the table of searches for MedMix settings."""
    conn.execute(next(text for text in statements(SCHEMA.read_text("utf-8")) if "CREATE TABLE matches" in text))


# The tables as described by SQLite, and as a documentation page.


@dataclass
class Column:
    """A column as described by SQLite. refers: TABLE.COLUMN of its foreign key."""

    name: str
    type: str
    required: bool = False
    default: str | None = None
    key: bool = False
    refers: str | None = None


@dataclass
class Table:
    """A table with its columns in order, and the statements of its indexes and triggers by name."""

    name: str
    columns: list[Column] = field(default_factory=list)
    indexes: dict[str, str] = field(default_factory=dict)
    triggers: dict[str, str] = field(default_factory=dict)


def tables() -> list[Table]:
    """Lists all tables, by name."""
    db = sqlite3.connect(":memory:")
    try:
        db.executescript(SCHEMA.read_text("utf-8"))
        rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
        objects = [row for row in rows.fetchall() if not row[1].startswith("sqlite_")]
        listed = {name: Table(name, _columns(db, name)) for kind, name, _, _ in objects if kind == "table"}
    finally:
        db.close()
    for kind, name, table, sql in objects:
        if kind != "table":
            (listed[table].indexes if kind == "index" else listed[table].triggers)[name] = sql
    return list(listed.values())


def _columns(db: sqlite3.Connection, table: str) -> list[Column]:
    keys = db.execute(f'PRAGMA foreign_key_list("{table}")').fetchall()
    refers = {column: f"{other}.{target or 'id'}" for _, _, other, column, target, *_ in keys}
    rows = db.execute(f'PRAGMA table_info("{table}")').fetchall()
    return [
        Column(name, kind, bool(must), default, key > 0, refers.get(name)) for _, name, kind, must, default, key in rows
    ]


def markdown() -> str:
    """Returns the documentation page in Markdown."""
    lines = ["# The database", "", "Made from `core/studio/db/schema.sql` by `launch.py schema`."]
    for table in tables():
        lines += ["", f"## {table.name}", "", "| column | type | |", "|---|---|---|"]
        lines += [f"| {c.name} | {c.type} | {_notes(c)} |" for c in table.columns]
        for title, names in (("Indexes", table.indexes), ("Triggers", table.triggers)):
            if names:
                lines += ["", f"{title}: {', '.join(names)}."]
    return "\n".join(lines)


def _notes(column: Column) -> str:
    notes = ["key"] * column.key + ["required"] * (column.required and not column.key)
    notes += [f"refers to {column.refers}"] * bool(column.refers)
    notes += [f"default {column.default}"] * (column.default is not None)
    return ", ".join(notes)

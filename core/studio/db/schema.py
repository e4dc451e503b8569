"""The tables of `schema.sql` as SQLite describes them, and as a page."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from core.studio.db.migrations import SCHEMA


@dataclass
class Column:
    """A column as SQLite describes it. refers: TABLE.COLUMN of its foreign key."""

    name: str
    type: str
    required: bool = False
    default: str | None = None
    key: bool = False
    refers: str | None = None


@dataclass
class Table:
    """A table with its columns in their order, and the statements of its indexes and triggers by name."""

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
        parts = [row for row in rows.fetchall() if not row[1].startswith("sqlite_")]
        listed = {name: Table(name, _columns(db, name)) for kind, name, _, _ in parts if kind == "table"}
    finally:
        db.close()
    for kind, name, table, sql in parts:
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
    """Returns the page, as Markdown."""
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

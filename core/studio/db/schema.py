"""The schema as a page: each table with its columns, keys and indexes, and the migration that made each of them.

The page is made by applying the migrations one after the other to an empty database and looking at what has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlite_utils

from core.studio.db import migrate
from core.studio.db.store import Row


@dataclass
class Column:
    """A column as SQLite describes it; made: the migration that added or renamed it."""

    name: str
    type: str
    made: str
    required: bool = False
    default: str | None = None
    key: bool = False
    refers: str | None = None


@dataclass
class Table:
    """A table with its columns in their order, and the statements of its indexes and triggers by name."""

    name: str
    made: str
    columns: list[Column] = field(default_factory=list)
    indexes: dict[str, str] = field(default_factory=dict)
    triggers: dict[str, str] = field(default_factory=dict)


def tables() -> list[Table]:
    """Lists all tables after the last migration, by name."""
    db = sqlite_utils.Database(memory=True)
    before: dict[str, Table] = {}
    try:
        for step in migrate.names():
            migrate.load(step).apply(db)
            before = _changed(db, step, before)
    finally:
        db.close()
    return [before[name] for name in sorted(before)]


def _changed(db: sqlite_utils.Database, step: str, before: dict[str, Table]) -> dict[str, Table]:
    """The tables as they are now; what was not there `before` was made by `step`."""
    now: dict[str, Table] = {}
    lost = [table for name, table in before.items() if name not in db.table_names()]
    for name in db.table_names():
        names = list(db[name].columns_dict)
        renamed = (table for table in lost if [c.name for c in table.columns] == names)
        known = before.get(name) or next(renamed, None)
        columns = {c.name: c for c in known.columns} if known else {}
        columns_now = [_column(db, name, info, columns, step) for info in db.query(f'PRAGMA table_info("{name}")')]
        now[name] = Table(name, known.made if known else step, columns_now)
    for row in db.query("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"):
        if row["type"] in ("index", "trigger"):
            table = now[row["tbl_name"]]
            (table.indexes if row["type"] == "index" else table.triggers)[row["name"]] = row["sql"]
    return now


def _column(db: sqlite_utils.Database, table: str, info: Row, known: dict[str, Column], step: str) -> Column:
    refers = {
        row["from"]: f"{row['table']}.{row['to'] or 'id'}" for row in db.query(f'PRAGMA foreign_key_list("{table}")')
    }
    name = info["name"]
    since = known[name].made if name in known else step
    return Column(
        name, info["type"], since, bool(info["notnull"]), info["dflt_value"], info["pk"] > 0, refers.get(name)
    )


def markdown() -> str:
    """Returns the page, as Markdown."""
    lines = ["# The database", "", "Made from `core/studio/db/migrations` by `launch.py schema`.", ""]
    lines += ["| migration | what for |", "|---|---|"]
    for step in migrate.names():
        documented = (migrate.load(step).__doc__ or "").strip().split("\n\n")[0]
        lines.append(f"| {step} | {_cell(documented)} |")
    for table in tables():
        lines += ["", f"## {table.name}", "", f"Made by {table.made}.", ""]
        lines += ["| column | type | | made by |", "|---|---|---|---|"]
        lines += [f"| {c.name} | {c.type} | {_cell(_notes(c))} | {c.made} |" for c in table.columns]
        for title, names in (("Indexes", table.indexes), ("Triggers", table.triggers)):
            if names:
                lines += ["", f"{title}: {', '.join(names)}."]
    return "\n".join(lines)


def _notes(column: Column) -> str:
    parts = ["key"] * column.key + ["required"] * (column.required and not column.key)
    parts += [f"refers to {column.refers}"] * bool(column.refers)
    parts += [f"default {column.default}"] * (column.default is not None)
    return ", ".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

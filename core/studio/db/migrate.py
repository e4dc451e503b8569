"""Bringing a database up to date by the files of `core/studio/db/migrations`, in the order of their numbers.

Each file has `apply(db)`. All that are due run inside one transaction. The first is the base: the tables as version
0.2 had them. A home of 0.2, whose tables came step by step, is recognised as that base; an older one is refused.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from types import ModuleType

import sqlite_utils
from sqlite_utils.migrations import Migrations

from core.studio.db import migrations
from core.studio.db.home import BadHome

BASE = "0490_base"
_SET = "studio"
_LAST_OF_0_2 = "0490_order_by_decision"


def names() -> list[str]:
    """Lists all steps, in the order in which they are applied."""
    return sorted(module.name for module in pkgutil.iter_modules(migrations.__path__))


def load(name: str) -> ModuleType:
    """Imports the module of one step, with its `apply(db)`."""
    return importlib.import_module(f"{migrations.__name__}.{name}")


def check(applied: Iterable[str]) -> None:
    """Checks that a database with these steps can be brought up to date.

    Raises BadHome if it has tables of version 0.1, which only 0.2 brings up to date.
    """
    steps = set(applied)
    if steps and not steps & {BASE, _LAST_OF_0_2}:
        raise BadHome(
            "this home was last opened by version 0.1; open it once with PMSACL Studio 0.2.0, then with this version"
        )


def newer(applied: Iterable[str]) -> list[str]:
    """Returns the steps of `applied` that this version does not know: those after the base that it has no file for."""
    return sorted(name for name in set(applied) - set(names()) if name > BASE and name != _LAST_OF_0_2)


def migrate(db: sqlite_utils.Database, before: Callable[[], object] | None = None) -> None:
    """Applies the steps that are due. Two processes may call this at once: the second waits, then finds none due.

    before: called first if there is anything in the database that a step could harm. Raises BadHome, and changes
    nothing, if the database is of version 0.1.
    """
    steps = Migrations(_SET)
    for name in names():
        steps(name=name)(load(name).apply)
    is_new = steps.migrations_table not in db.table_names()
    applied = [] if is_new else [row.name for row in steps.applied(db)]
    check(applied)
    if not is_new and not steps.pending(db):
        return
    if before is not None and not is_new:
        before()
    db.conn.execute("BEGIN IMMEDIATE")
    try:
        steps.ensure_migrations_table(db)
        db.conn.execute(
            f"INSERT OR IGNORE INTO {steps.migrations_table} (migration_set, name, applied_at) "
            f"SELECT migration_set, ?, applied_at FROM {steps.migrations_table} WHERE migration_set = ? AND name = ?",
            [BASE, _SET, _LAST_OF_0_2],
        )
        steps.apply(db)
    except BaseException:
        db.rollback()
        raise
    db.conn.execute("COMMIT")

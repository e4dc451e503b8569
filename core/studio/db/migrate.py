"""Bring a database up to date: the files of `core/studio/db/migrations`, in the order of their numbers.

Each file has `apply(db)`. All that are due run inside one transaction.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType

import sqlite_utils
from sqlite_utils.migrations import Migrations

from core.studio.db import migrations

_SET = "studio"
_RENAMED = {"0220_worklist_facts": "0221_worklist_facts"}  # name in older homes: name now


def names() -> list[str]:
    """All steps, in the order in which they are applied."""
    return sorted(module.name for module in pkgutil.iter_modules(migrations.__path__))


def load(name: str) -> ModuleType:
    """The module of one step, with its `apply(db)`."""
    return importlib.import_module(f"{migrations.__name__}.{name}")


def known() -> list[str]:
    """All names that a home of this version, or of one before, may have recorded as applied."""
    return [*names(), *_RENAMED]


def migrate(db: sqlite_utils.Database, before: Callable[[], None] | None = None) -> None:
    """Apply the steps that are due. Two processes may call this at once: the second waits, then finds none due.

    before: called first if there is anything in the database that a step could harm.
    """
    steps = Migrations(_SET)
    for name in names():
        steps(name=name)(load(name).apply)
    if not steps.pending(db):
        return
    if before is not None and steps.migrations_table in db.table_names():
        before()
    db.conn.execute("BEGIN IMMEDIATE")
    try:
        steps.ensure_migrations_table(db)
        for old, new in _RENAMED.items():
            db.conn.execute(
                f"UPDATE {steps.migrations_table} SET name = ? WHERE migration_set = ? AND name = ?", [new, _SET, old]
            )
        steps.apply(db)
    except BaseException:
        db.rollback()
        raise
    db.conn.execute("COMMIT")

"""The database's history. Each feature adds its own step, in its own module:

    @migration("0002_reviews_by_case")
    def _(db: sqlite_utils.Database) -> None: ...

Steps run once, in the order of their names, inside one transaction. Modules that hold one are found by themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlite_utils
from sqlite_utils.migrations import Migrations

from core.studio.discover import import_marked

_STEPS: dict[str, Callable[[sqlite_utils.Database], None]] = {}
_SET = "studio"


def migration(name: str) -> Callable:
    """Decorator: register one step. `name` starts with four digits, which set the order."""

    def add(step):
        if name in _STEPS and _STEPS[name].__module__ != step.__module__:
            raise ValueError(f"two migrations are called {name!r}")
        _STEPS[name] = step
        return step

    return add


def migrate(db: sqlite_utils.Database) -> None:
    """Bring `db` up to date. Two processes may do so at once: the second waits, then finds nothing to do."""
    import_marked("migration")
    steps = Migrations(_SET)
    for name in sorted(_STEPS):
        steps(name=name)(_STEPS[name])
    if not steps.pending(db):
        return
    db.conn.execute("BEGIN IMMEDIATE")
    try:
        steps.apply(db)
    except BaseException:
        db.rollback()
        raise
    db.conn.execute("COMMIT")

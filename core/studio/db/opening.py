"""Opens a home's database: creates it if missing; backs up and migrates it if older."""

from __future__ import annotations

from core.studio.db import backup, migrations
from core.studio.db.home import Home
from core.studio.db.store import Store


def open(home: Home | str | None = None) -> Store:
    """Opens the database of a home (a Home, a path, or None for the default), creating or migrating it if necessary.

    Raises BadHome, and changes nothing, if a newer version created the database.
    """
    store = Store(home if isinstance(home, Home) else Home.at(home))
    try:
        migrations.migrate(store.db.conn, before=lambda: backup.backup(store.home, kind=backup.BEFORE))
    except BaseException:
        store.close()
        raise
    return store

"""Opening a home's database: it is created if missing, and backed up and migrated if it is older."""

from __future__ import annotations

from core.studio.db import backup, migrations
from core.studio.db.home import Home
from core.studio.db.store import Store


def open(home: Home | str | None = None) -> Store:
    """Opens the database of a home (Home, path, or None for the default); creates or migrates it if necessary.

    Raises BadHome, and changes nothing, if the home is from a newer version.
    """
    store = Store(home if isinstance(home, Home) else Home.at(home))
    try:
        migrations.migrate(store.db.conn, before=lambda: backup.backup(store.home, kind=backup.BEFORE))
    except BaseException:
        store.close()
        raise
    return store

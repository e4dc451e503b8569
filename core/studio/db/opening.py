"""Opens the database of a home: creates a missing database, and backs up and migrates an older one."""

from __future__ import annotations

from core.studio.db import backup, migrations
from core.studio.db.home import Home
from core.studio.db.store import Store


def open(home: Home | str | None = None) -> Store:
    """Opens the database of `home` (default: the default home of `Home.at`), and creates or migrates it if necessary.

    Raises BadHome, and changes nothing, if a newer version created the database.
    """
    store = Store(home if isinstance(home, Home) else Home.at(home))
    try:
        migrations.migrate(store.db.conn, before=lambda: backup.backup(store.home, kind=backup.BEFORE))
    except BaseException:
        store.close()
        raise
    return store

"""Opening a home's database: made if there is none, brought up to date, a backup taken before that."""

from __future__ import annotations

from core.studio.db import backup, migrations
from core.studio.db.home import Home
from core.studio.db.store import Store


def open(home: Home | str | None = None) -> Store:
    """Opens (and if need be makes) the store of a home, given as Home, path or None for the default.

    Raises BadHome, and changes nothing, for a home of version 0.2 or older, or of a newer version.
    """
    store = Store(home if isinstance(home, Home) else Home.at(home))
    try:
        migrations.migrate(store.db.conn, before=lambda: backup.backup(store.home, kind=backup.BEFORE))
    except BaseException:
        store.close()
        raise
    return store

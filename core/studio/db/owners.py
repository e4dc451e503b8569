"""Records who owns each run, map, view, preset and upload. Only owners and administrators may change an item."""

from __future__ import annotations

from collections.abc import Sequence

from core.studio.db.store import Store, now


def set_owner(store: Store, kind: str, ids: Sequence[str | int], reader: str) -> None:
    """Makes `reader` the owner of the given items; items that already have an owner keep it."""
    with store.write() as db:
        rows = [(kind, str(item), reader, now()) for item in ids]
        db.conn.executemany("INSERT OR IGNORE INTO owners (kind, id, reader, created) VALUES (?, ?, ?, ?)", rows)


def owner(store: Store, kind: str, id: str | int) -> str | None:
    """Returns the owner of an item, or None if it has none, such as an item created on the command line."""
    row = store.one("SELECT reader FROM owners WHERE kind = ? AND id = ?", [kind, str(id)])
    return row["reader"] if row else None


def owned(store: Store, kind: str, reader: str) -> list[str]:
    """Returns the ids of a reader's items of a kind, oldest first."""
    query = "SELECT id FROM owners WHERE kind = ? AND reader = ? ORDER BY created, id"
    return [row["id"] for row in store.query(query, [kind, reader])]


def forget_owner(store: Store, kind: str, id: str | int) -> None:
    """Deletes the record of a deleted item's owner, so that a new item can have the same id."""
    store.execute("DELETE FROM owners WHERE kind = ? AND id = ?", [kind, str(id)])

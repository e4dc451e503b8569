"""Owners of runs, maps, views, presets and uploads: only owners and administrators may change or delete these items."""

from __future__ import annotations

from collections.abc import Sequence

from core.studio.db.store import Store, now


def set_owner(store: Store, kind: str, ids: Sequence[str | int], reader: str) -> None:
    """Records `reader` as the owner of those of the items `ids` that have no owner yet."""
    with store.write() as db:
        rows = [(kind, str(item), reader, now()) for item in ids]
        db.conn.executemany("INSERT OR IGNORE INTO owners (kind, id, reader, created) VALUES (?, ?, ?, ?)", rows)


def owner(store: Store, kind: str, id: str | int) -> str | None:
    """Returns the owner of an item, or None if the item was created on the command line."""
    row = store.one("SELECT reader FROM owners WHERE kind = ? AND id = ?", [kind, str(id)])
    return row["reader"] if row else None


def owned(store: Store, kind: str, reader: str) -> list[str]:
    """Returns the ids of the items of a kind that a reader owns, oldest first."""
    query = "SELECT id FROM owners WHERE kind = ? AND reader = ? ORDER BY created, id"
    return [row["id"] for row in store.query(query, [kind, reader])]


def forget_owner(store: Store, kind: str, id: str | int) -> None:
    """Removes the owner of a deleted item, so that its id can be used again."""
    store.execute("DELETE FROM owners WHERE kind = ? AND id = ?", [kind, str(id)])

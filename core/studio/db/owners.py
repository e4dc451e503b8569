"""Who made a run, a map, a view, a preset or an upload: only they and administrators may change or delete it."""

from __future__ import annotations

from collections.abc import Sequence

from core.studio.db.store import Store, now


def set_owner(store: Store, kind: str, ids: Sequence[str | int], reader: str) -> None:
    """Records `reader` as the maker of the things `ids` of one kind; what has an owner keeps it."""
    with store.write() as db:
        rows = [(kind, str(item), reader, now()) for item in ids]
        db.conn.executemany("INSERT OR IGNORE INTO owners (kind, id, reader, created) VALUES (?, ?, ?, ?)", rows)


def owner(store: Store, kind: str, id: str | int) -> str | None:
    """Returns the reader who made a thing; None for what the command line or an older version made."""
    row = store.one("SELECT reader FROM owners WHERE kind = ? AND id = ?", [kind, str(id)])
    return row["reader"] if row else None


def owned(store: Store, kind: str, reader: str) -> list[str]:
    """Lists the ids of what a reader made, oldest first."""
    query = "SELECT id FROM owners WHERE kind = ? AND reader = ? ORDER BY created, id"
    return [row["id"] for row in store.query(query, [kind, reader])]


def forget_owner(store: Store, kind: str, id: str | int) -> None:
    """Forgets the owner of a thing that was deleted: its name is free for another owner."""
    store.execute("DELETE FROM owners WHERE kind = ? AND id = ?", [kind, str(id)])

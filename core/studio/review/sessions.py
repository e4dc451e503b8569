"""Sign-ins that are open: kept by the hash of their secret, with the time at which they end."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta, timezone

from core.studio.db.store import Store, now


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def start(store: Store, reader: str, hours: float) -> str:
    """Open a session; returns its secret, which is kept nowhere else. Sessions that are over are removed."""
    secret = secrets.token_urlsafe(32)
    ends = datetime.now(timezone.utc) + timedelta(hours=hours)
    expires = ends.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    with store.write() as db:
        db.execute("DELETE FROM sessions WHERE expires <= ?", [now()])
        row = {"hash": _hash(secret), "reader": reader, "created": now(), "expires": expires}
        db.table("sessions").insert(row)
    return secret


def reader_of(store: Store, secret: str) -> str | None:
    """The reader whose session it is; None if it is over, unknown, or the account has no password any more."""
    query = (
        "SELECT s.reader FROM sessions s JOIN readers r ON r.name = s.reader AND r.password_hash IS NOT NULL "
        "WHERE s.hash = ? AND s.expires > ?"
    )
    row = store.one(query, [_hash(secret), now()])
    return row["reader"] if row else None


def end(store: Store, secret: str) -> None:
    """End one session: signing out."""
    store.execute("DELETE FROM sessions WHERE hash = ?", [_hash(secret)])


def end_all(store: Store, reader: str) -> None:
    """End each session of a reader: a new password, or the account's removal."""
    store.execute("DELETE FROM sessions WHERE reader = ?", [reader])

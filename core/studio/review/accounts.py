"""Readers' accounts: a name, a role, and a password kept only as an Argon2id hash (argon2-cffi, its defaults)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from core.studio.db.store import NotFound, Store, now
from core.studio.review import sessions

ROLES = ("reader", "adjudicator", "administrator")
SHORTEST = 8
_HASHER = PasswordHasher()
_NOBODY = _HASHER.hash("nobody has this password")
_NAME = re.compile(r"[^\W_][\w .@-]{0,63}")


@dataclass(frozen=True)
class Hashed:
    """A password's hash. `hashed` makes it before a transaction begins: in it, every other writer would wait."""

    value: str


def hashed(password: str) -> Hashed:
    """Takes some 50 ms. Raises ValueError for a password that is too short."""
    if len(password) < SHORTEST:
        raise ValueError(f"a password has at least {SHORTEST} characters")
    return Hashed(_HASHER.hash(password))


def add_reader(store: Store, name: str, password: str | Hashed, role: str = "reader") -> None:
    """Make an account, or give one a new password and role, which ends its sessions.

    Raises ValueError, which says what a name, a password and a role need.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a reader's name has 1 to 64 letters, digits, spaces or . @ - _ and starts with a letter or digit"
        )
    if role not in ROLES:
        raise ValueError(f"a reader's role is one of {', '.join(ROLES)}")
    made = password if isinstance(password, Hashed) else hashed(password)
    row = {"name": name, "role": role, "password_hash": made.value, "created": now()}
    with store.write() as db:
        db.table("readers").upsert(row, pk="name")
        sessions.end_all(store, name)


def remove_reader(store: Store, name: str) -> None:
    """Take away an account's password and end its sessions; its reviews stay. Raises NotFound if there is none."""
    if store.one("SELECT 1 FROM readers WHERE name = ?", [name]) is None:
        raise NotFound(f"there is no reader called {name!r}")
    with store.write() as db:
        db.execute("UPDATE readers SET password_hash = NULL WHERE name = ?", [name])
        sessions.end_all(store, name)


def list_readers(store: Store) -> list[dict]:
    """[{"name", "role", "created", "active"}], by name; never a hash."""
    return store.query(
        "SELECT name, role, created, password_hash IS NOT NULL AS active FROM readers ORDER BY name COLLATE NOCASE"
    )


def role_of(store: Store, name: str) -> str | None:
    """The reader's role, or None for a name without an account."""
    row = store.one("SELECT role FROM readers WHERE name = ?", [name])
    return row["role"] if row else None


def verify(store: Store, name: str, password: str) -> bool:
    """Whether the password is this name's. Takes as long for an unknown name.

    How often one may try is decided where people sign in (app/access/attempts.py).
    """
    row = store.one("SELECT password_hash FROM readers WHERE name = ?", [name])
    kept = (row or {}).get("password_hash")
    try:
        right = _HASHER.verify(kept or _NOBODY, password) and kept is not None
    except (VerificationError, InvalidHashError):
        return False
    if right and kept is not None and _HASHER.check_needs_rehash(kept):
        store.execute("UPDATE readers SET password_hash = ? WHERE name = ?", [_HASHER.hash(password), name])
    return right


def password_mark(store: Store, name: str) -> str:
    """Changes with the account's password and reveals nothing of it; "" for a name without one."""
    row = store.one("SELECT password_hash FROM readers WHERE name = ?", [name])
    return hashlib.sha256(row["password_hash"].encode()).hexdigest()[:16] if row and row["password_hash"] else ""

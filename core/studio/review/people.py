"""Accounts as they are kept by administrators and by their owners; each act is in the audit trail.

Invited or reset on the page, an account gets a password that the server makes. It leaves by the value that is returned
here and by nothing else; its hash is kept.
"""

from __future__ import annotations

import secrets

from core.studio.db import audit
from core.studio.db.store import NotFound, Row, Store
from core.studio.review import accounts, readers

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is taken for another: no i, l, o, 0, 1
GROUPS, LENGTH = 4, 4  # 16 of 31 letters: 79 bits


def make_password() -> str:
    """A random password in groups that can be read out: 'k7wm-x2fp-ht9c-3sdn'."""
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(LENGTH)) for _ in range(GROUPS))


def invite(store: Store, name: str, role: str, by: str) -> str:
    """Make an account; returns its password, which is kept nowhere. A removed account may be invited again.

    Raises ValueError if a reader has the name, however it is spelt, or for a name or role that is none.
    """
    password = make_password()
    made = accounts.hashed(password)
    with store.write():
        for row in accounts.list_readers(store):
            if row["name"].casefold() == name.casefold() and (row["active"] or row["name"] != name):
                raise ValueError(f"there is already an account of {row['name']!r}")
        accounts.add_reader(store, name, made, role)
        audit.record(store, by, "invite", after={"reader": name, "role": role})
    return password


def set_role(store: Store, name: str, role: str, by: str) -> None:
    """Give an account another role, which holds from its next request on.

    Raises NotFound without such an account, ValueError for a role that is none or of the last administrator.
    """
    if role not in accounts.ROLES:
        raise ValueError(f"a reader's role is one of {', '.join(accounts.ROLES)}")
    with store.write() as db:
        before = _account(store, name)["role"]
        if before == role:
            return
        _keep_one(store, name, "Make another one first.")
        db.execute("UPDATE readers SET role = ? WHERE name = ?", [role, name])
        audit.record(store, by, "role", before={"reader": name, "role": before}, after={"role": role})


def reset(store: Store, name: str, by: str) -> str:
    """Give an account a new password, which is returned and kept nowhere, and end its sessions.

    Raises NotFound without such an account, ValueError for one's own: signed out by it, one might never see it.
    """
    password = make_password()
    made = accounts.hashed(password)
    with store.write():
        role = _account(store, name)["role"]
        if name == by:
            raise ValueError("You change your own password under “Password”, at the top of the page.")
        accounts.add_reader(store, name, made, role)
        audit.record(store, by, "password-reset", after={"reader": name})
    return password


def change_password(store: Store, name: str, old: str, new: str) -> str:
    """Give an account the password that its owner chose, and end its sessions.

    Returns `accounts.password_mark` of the new one, "" if `old` is not the account's password. Raises ValueError if the
    new one is the old one or too short.
    """
    if not accounts.verify(store, name, old):
        return ""
    if new == old:
        raise ValueError("the new password is the old one")
    made = accounts.hashed(new)
    with store.write():
        accounts.add_reader(store, name, made, _account(store, name)["role"])
        audit.record(store, name, "password", after={"reader": name})
        return accounts.password_mark(store, name)


def keep(store: Store, name: str, password: str, role: str, by: str) -> None:
    """Make an account, or give one another password and role, as whoever runs the machine may.

    Raises ValueError for a name, password or role that is none, or if nobody would be administrator any more.
    """
    made = accounts.hashed(password)
    with store.write():
        known = _found(store, name)
        if known:
            set_role(store, name, role, by)
        accounts.add_reader(store, name, made, role)
        if known:
            audit.record(store, by, "password-reset", after={"reader": name})
        else:
            audit.record(store, by, "invite", after={"reader": name, "role": role})


def remove(store: Store, name: str, by: str) -> None:
    """Take an account's password away and end its sessions; its reviews stay.

    Raises NotFound without such an account, ValueError for the last administrator's.
    """
    with store.write():
        role = _account(store, name)["role"]
        _keep_one(store, name, "Make another one before this account is removed.")
        accounts.remove_reader(store, name)
        audit.record(store, by, "account-removed", before={"reader": name, "role": role})


def listing(store: Store, study: str) -> list[Row]:
    """[{"name", "role", "created", "seen", "last", "assigned", "read", "read_in_all"}], by name: all who can sign in.

    seen: the latest decision, or sign-in that is still open, ISO 8601; None without one. last: the only administrator.
    The last three are numbers of the study's cases, as `readers.dealt` has them.
    """
    progress = {row["name"]: row for row in readers.dealt(store, study)["readers"]}
    found = store.query(
        "SELECT name, role, created, (SELECT max(s.created) FROM sessions s WHERE s.reader = name) AS entered, "
        # By stage, because the index is: no scan of all that somebody ever decided.
        "(SELECT max(at) FROM (SELECT (SELECT max(k.created) FROM current_reviews k WHERE k.reader = name AND "
        "k.stage = t.stage) AS at FROM (SELECT 'first' AS stage UNION SELECT 'second' UNION SELECT 'adjudication') t)) "
        "AS decided FROM readers WHERE password_hash IS NOT NULL ORDER BY name COLLATE NOCASE"
    )
    return [
        {
            "name": row["name"],
            "role": row["role"],
            "created": row["created"],
            "seen": max((at for at in (row["entered"], row["decided"]) if at), default=None),
            "last": _administrators(store) == [row["name"]],
            **{key: progress[row["name"]][key] for key in ("assigned", "read", "read_in_all")},
        }
        for row in found
    ]


def _found(store: Store, name: str) -> Row | None:
    return store.one("SELECT role FROM readers WHERE name = ? AND password_hash IS NOT NULL", [name])


def _account(store: Store, name: str) -> Row:
    row = _found(store, name)
    if row is None:
        raise NotFound(f"there is no reader called {name!r}")
    return row


def _administrators(store: Store) -> list[str]:
    query = "SELECT name FROM readers WHERE role = 'administrator' AND password_hash IS NOT NULL"
    return [row["name"] for row in store.query(query)]


def _keep_one(store: Store, name: str, instead: str) -> None:
    if _administrators(store) == [name]:
        raise ValueError(f"{name} is the last administrator. {instead}")

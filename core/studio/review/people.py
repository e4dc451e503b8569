"""Accounts of readers: names, passwords, sign-in sessions, tokens, the rights of each role, and assigned cases."""

from __future__ import annotations

import hashlib
import random
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from core.studio.db import audit, limits
from core.studio.db.store import NotFound, Row, Store, now

# Open sign-ins: stored by the hash of their secret, with the time at which they end.


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def start_sign_in(store: Store, reader: str, hours: float) -> str:
    """Signs a reader in for `hours` hours; returns the session's secret, of which only a hash is stored."""
    secret = secrets.token_urlsafe(32)
    ends = datetime.now(timezone.utc) + timedelta(hours=hours)
    expires = ends.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    with store.write() as db:
        db.execute("DELETE FROM sessions WHERE expires <= ?", [now()])
        row = {"hash": _hash(secret), "reader": reader, "created": now(), "expires": expires}
        db.table("sessions").insert(row)
        db.execute(
            "DELETE FROM sessions WHERE reader = :reader AND hash NOT IN "
            "(SELECT hash FROM sessions WHERE reader = :reader ORDER BY created DESC LIMIT :most)",
            {"reader": reader, "most": limits.LIMITS["sign-in"].most},
        )
    return secret


def reader_of_sign_in(store: Store, secret: str) -> str | None:
    """Returns the reader of a sign-in session; None if it is expired or unknown, or the account has no password."""
    query = (
        "SELECT s.reader FROM sessions s JOIN readers r ON r.name = s.reader AND r.password_hash IS NOT NULL "
        "WHERE s.hash = ? AND s.expires > ?"
    )
    row = store.one(query, [_hash(secret), now()])
    return row["reader"] if row else None


def end_sign_in(store: Store, secret: str) -> None:
    """Ends the sign-in session with this secret."""
    store.execute("DELETE FROM sessions WHERE hash = ?", [_hash(secret)])


def end_sign_ins(store: Store, reader: str) -> None:
    """Ends all sign-in sessions of a reader and revokes all tokens, after a new password or the account's removal."""
    store.execute("DELETE FROM sessions WHERE reader = ?", [reader])
    store.execute("DELETE FROM tokens WHERE reader = ?", [reader])


# Tokens: what a program sends instead of a session's cookie, until its reader or an administrator revokes it.

TOKEN = "pmsacl_"  # prefix of every token, so that one in a file is recognised as such


def make_token(store: Store, reader: str, name: str) -> str:
    """Creates and returns a token of the reader's account; only a hash is stored. name: its purpose, 1 to 64 letters.

    Raises ValueError for an invalid name, and TooMuch if the reader has the maximum number of tokens.
    """
    name = name.strip()
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise ValueError("Say in 1 to 64 letters what the token is for.")
    secret = TOKEN + secrets.token_urlsafe(32)
    with store.write() as db:
        limits.demand("token", len(list_tokens(store, reader)))
        row = {"hash": _hash(secret), "reader": reader, "name": name, "created": now()}
        db.table("tokens").insert(row)
        audit.record(store, reader, "token", after={"reader": reader, "name": name})
    return secret


def list_tokens(store: Store, reader: str) -> list[Row]:
    """Lists a reader's tokens, the newest first: [{"id", "name", "created"}]."""
    return store.query("SELECT id, name, created FROM tokens WHERE reader = ? ORDER BY id DESC", [reader])


def reader_of_token(store: Store, secret: str) -> str | None:
    """Returns the reader of a token; None if it is unknown, or the account no longer has a password."""
    row = store.one(
        "SELECT t.reader FROM tokens t JOIN readers r ON r.name = t.reader AND r.password_hash IS NOT NULL "
        "WHERE t.hash = ?",
        [_hash(secret)],
    )
    return row["reader"] if row else None


def revoke_tokens(store: Store, reader: str, by: str, number: int | None = None) -> int:
    """Revokes one token of a reader, or all; returns their number. Raises NotFound if `number` is not the reader's."""
    with store.write() as db:
        query = "DELETE FROM tokens WHERE reader = :reader AND id = coalesce(:number, id)"
        gone = int(db.execute(query, {"reader": reader, "number": number}).rowcount)
        if number is not None and not gone:
            raise NotFound("There is no such token; it may have been revoked already.")
        audit.record(store, by, "tokens-revoked", before={"reader": reader, "tokens": gone})
    return gone


# Readers' accounts: a name, a role, and a password kept only as an Argon2id hash (argon2-cffi, its defaults).

ROLES = ("reader", "adjudicator", "administrator")
SHORTEST = 8
_HASHER = PasswordHasher()
_NOBODY = _HASHER.hash("nobody has this password")
_NAME = re.compile(r"[^\W_][\w .@-]{0,63}")


@dataclass(frozen=True)
class Hashed:
    """A password's hash, made by `hashed` before a transaction begins, so that no other writer waits for it."""

    value: str


def hashed(password: str) -> Hashed:
    """Hashes a password, which takes some 50 ms. Raises ValueError if it is too short."""
    if len(password) < SHORTEST:
        raise ValueError(f"a password has at least {SHORTEST} characters")
    return Hashed(_HASHER.hash(password))


def add_reader(store: Store, name: str, password: str | Hashed, role: str = "reader") -> None:
    """Creates an account, or gives one a new password and role, which ends its sessions.

    Raises ValueError if the name, password or role is invalid; the message says what is allowed.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a reader's name has 1 to 64 letters, digits, spaces or . @ - _ and starts with a letter or digit"
        )
    if role not in ROLES:
        raise ValueError(f"a reader's role is one of {', '.join(ROLES)}")
    hash_made = password if isinstance(password, Hashed) else hashed(password)
    row = {"name": name, "role": role, "password_hash": hash_made.value, "created": now()}
    with store.write() as db:
        db.table("readers").upsert(row, pk="name")
        end_sign_ins(store, name)


def remove_reader(store: Store, name: str) -> None:
    """Removes an account's password and ends its sessions; its reviews stay. Raises NotFound if it is unknown."""
    if store.one("SELECT 1 FROM readers WHERE name = ?", [name]) is None:
        raise NotFound(f"unknown reader {name!r}")
    with store.write() as db:
        db.execute("UPDATE readers SET password_hash = NULL WHERE name = ?", [name])
        end_sign_ins(store, name)


def list_readers(store: Store) -> list[dict]:
    """Lists the accounts by name, without password hashes; returns [{"name", "role", "created", "active"}]."""
    return store.query(
        "SELECT name, role, created, password_hash IS NOT NULL AS active FROM readers ORDER BY name COLLATE NOCASE"
    )


def role_of(store: Store, name: str) -> str | None:
    """Returns the reader's role, or None for a name without an account."""
    row = store.one("SELECT role FROM readers WHERE name = ?", [name])
    return row["role"] if row else None


def verify(store: Store, name: str, password: str) -> str:
    """Checks a password; returns the account's `password_mark` if it is correct, else "".

    The check takes equally long for an unknown name. A hash with outdated parameters is replaced, unless the password
    changed meanwhile. app/access/sign_in.py limits the number of attempts.
    """
    row = store.one("SELECT password_hash FROM readers WHERE name = ?", [name])
    stored = (row or {}).get("password_hash")
    try:
        right = _HASHER.verify(stored or _NOBODY, password) and stored is not None
    except (VerificationError, InvalidHashError):
        return ""
    if stored is None or not right:
        return ""
    if _HASHER.check_needs_rehash(stored):
        renewed = _HASHER.hash(password)
        query = "UPDATE readers SET password_hash = ? WHERE name = ? AND password_hash = ?"
        with store.write() as db:
            stored = renewed if db.execute(query, [renewed, name, stored]).rowcount else stored
    return _mark(stored)


def password_mark(store: Store, name: str) -> str:
    """Returns a text that changes with an account's password but does not reveal it; "" without a password."""
    row = store.one("SELECT password_hash FROM readers WHERE name = ?", [name])
    return _mark(row["password_hash"]) if row and row["password_hash"] else ""


def _mark(password_hash: str) -> str:
    return hashlib.sha256(password_hash.encode()).hexdigest()[:16]


# Who may do what, and who is assigned which case.


class NotAllowed(ValueError):
    """Raised if a reader's role does not permit an action; the message names the roles that do."""


def rights(store: Store, reader: str, single_user: bool) -> dict:
    """Returns {"role", "administer", "adjudicate"}. In single-user mode the reader may do everything, and still reads
    blind."""
    return rights_of(None if single_user else role_of(store, reader), single_user)


def rights_of(role: str | None, single_user: bool) -> dict:
    """Returns the result of `rights` for a role; role: None for a name without an account."""
    role = "single" if single_user else (role or "reader")
    return {
        "role": role,
        "administer": role in ("single", "administrator"),
        "adjudicate": role in ("single", "adjudicator", "administrator"),
    }


def demand(store: Store, reader: str, single_user: bool, right: str) -> None:
    """Raises NotAllowed unless the reader has the right 'administer' or 'adjudicate'."""
    if not rights(store, reader, single_user)[right]:
        raise not_allowed(right)


def not_allowed(right: str) -> NotAllowed:
    """Returns the error for a reader who lacks the right 'administer' or 'adjudicate'."""
    who = "an administrator" if right == "administer" else "an adjudicator or an administrator"
    return NotAllowed(f"Only {who} may do that.")


def known_readers(store: Store, study: str | None = None) -> list[str]:
    """Lists, sorted, the names with an active account or with a review (in the study, if one is given)."""
    names = {r["name"] for r in list_readers(store) if r["active"]}
    query = "SELECT DISTINCT reader FROM reviews r"
    if study is not None:
        query += " JOIN cases c ON c.id = r.case_id WHERE c.study = ?"
    names |= {r["reader"] for r in store.query(query, [study] if study else [])}
    return sorted(names, key=str.lower)


def assign(store: Store, study: str, readers: list[str], by: str, *, per_case: int = 1) -> dict[str, int]:
    """Distributes the study's test cases evenly, each to `per_case` readers; earlier assignments stay.

    Returns cases per reader. Raises ValueError if there are fewer readers than `per_case`.
    """
    if not 1 <= per_case <= len(set(readers)):
        raise ValueError(f"to give each case to {per_case} readers, name at least as many readers")
    names = sorted(set(readers))
    load = {name: 0 for name in names}
    with store.write() as db:
        readers_of: dict[int, set[str]] = {}
        for row in store.query(
            "SELECT a.case_id, a.reader FROM assignments a JOIN cases c ON c.id = a.case_id WHERE c.study = ?", [study]
        ):
            readers_of.setdefault(row["case_id"], set()).add(row["reader"])
            if row["reader"] in load:
                load[row["reader"]] += 1
        cases = [r["id"] for r in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test'", [study])]
        draw = random.Random(0)
        draw.shuffle(cases)
        rows = []
        for case_id in cases:
            has = readers_of.get(case_id, set())
            free = sorted((n for n in names if n not in has), key=lambda n: (load[n], draw.random()))
            for name in free[: max(per_case - len(has), 0)]:
                rows.append((case_id, name, by, now()))
                load[name] += 1
        db.conn.executemany("INSERT INTO assignments (case_id, reader, by, created) VALUES (?, ?, ?, ?)", rows)
        audit.record(
            store, by, "assign", study=study, after={"readers": names, "per_case": per_case, "cases": len(rows)}
        )
    return load


def unassign(store: Store, study: str, reader: str, by: str) -> int:
    """Withdraws the assignment of a reader's unread cases; returns their number. Cases already read stay assigned."""
    with store.write() as db:
        gone = db.execute(
            "DELETE FROM assignments WHERE reader = :reader AND case_id IN (SELECT id FROM cases WHERE study = :study) "
            "AND NOT EXISTS (SELECT 1 FROM current_reviews k WHERE k.case_id = assignments.case_id "
            "AND k.reader = :reader)",
            {"reader": reader, "study": study},
        ).rowcount
        audit.record(store, by, "unassign", study=study, before={"reader": reader, "cases": gone})
    return gone


def dealt(store: Store, study: str) -> dict:
    """Counts, for each reader of a study, the cases assigned to them and the cases read.

    Returns {"readers": [{"name", "role", "assigned", "read", "read_in_all"}], "cases", "free"}. read: assigned cases
    that were read; read_in_all: all cases read. cases: number of test cases; free: test cases assigned to nobody.
    """
    roles = {r["name"]: r["role"] for r in list_readers(store)}
    counts = {
        r["reader"]: r
        for r in store.query(
            "SELECT a.reader, count(*) AS assigned, count(k.review_id) AS read FROM assignments a "
            "JOIN cases c ON c.id = a.case_id LEFT JOIN current_reviews k ON k.case_id = a.case_id "
            "AND k.reader = a.reader AND k.stage = 'first' WHERE c.study = ? GROUP BY a.reader",
            [study],
        )
    }
    in_all = {
        r["reader"]: r["n"]
        for r in store.query(
            "SELECT k.reader, count(*) AS n FROM cases c JOIN current_reviews k ON k.case_id = c.id "
            "AND k.stage = 'first' WHERE c.study = ? GROUP BY k.reader",
            [study],
        )
    }
    total = store.query(
        "SELECT count(*) AS n, coalesce(sum(id NOT IN (SELECT case_id FROM assignments)), 0) AS free FROM cases "
        "WHERE study = ? AND split = 'test'",
        [study],
    )[0]
    names = sorted({*known_readers(store, study), *counts}, key=str.lower)
    rows = [
        {
            "name": n,
            "role": roles.get(n),
            "read_in_all": in_all.get(n, 0),
            **{k: counts.get(n, {}).get(k, 0) for k in ("assigned", "read")},
        }
        for n in names
    ]
    return {"readers": rows, "cases": total["n"], "free": total["free"]}


def assign_one(store: Store, case_id: int, reader: str, by: str) -> None:
    """Assigns one case to a reader, in addition to other readers."""
    study = store.query("SELECT study FROM cases WHERE id = ?", [case_id])[0]["study"]
    with store.write() as db:
        db.execute(
            "INSERT OR IGNORE INTO assignments (case_id, reader, by, created) VALUES (?, ?, ?, ?)",
            [case_id, reader, by, now()],
        )
        audit.record(store, by, "assign", study=study, case_id=case_id, after={"reader": reader})


# Accounts as administrators and their owners manage them; each change is in the audit trail.
# The server makes the password of an account that is invited or reset on the page. It is returned once; only its hash
# is stored.

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without look-alikes: no i, l, o, 0, 1
GROUPS, LENGTH = 4, 4  # 16 of 31 letters: 79 bits


def make_password() -> str:
    """Returns a random password in groups that are easy to read out, such as 'k7wm-x2fp-ht9c-3sdn'."""
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(LENGTH)) for _ in range(GROUPS))


def invite(store: Store, name: str, role: str, by: str) -> str:
    """Creates an account; returns its password, of which only a hash is stored. Also restores a removed account.

    Raises ValueError if another account has the name, ignoring case, or if the name or role is invalid.
    """
    password = make_password()
    hash_made = hashed(password)
    with store.write():
        for row in list_readers(store):
            if row["name"].casefold() == name.casefold() and (row["active"] or row["name"] != name):
                raise ValueError(f"there is already an account of {row['name']!r}")
        add_reader(store, name, hash_made, role)
        audit.record(store, by, "invite", after={"reader": name, "role": role})
    return password


def set_role(store: Store, name: str, role: str, by: str) -> None:
    """Changes the role of an account, with effect from the reader's next request.

    Raises NotFound if the account is unknown, ValueError for an invalid role or the last administrator.
    """
    if role not in ROLES:
        raise ValueError(f"a reader's role is one of {', '.join(ROLES)}")
    with store.write() as db:
        before = _account(store, name)["role"]
        if before == role:
            return
        _keep_one(store, name, "Make another one first.")
        db.execute("UPDATE readers SET role = ? WHERE name = ?", [role, name])
        audit.record(store, by, "role", before={"reader": name, "role": before}, after={"role": role})


def reset_password(store: Store, name: str, by: str) -> str:
    """Gives an account a new password, returns it (only a hash is stored), and ends the account's sessions.

    Raises NotFound if the account is unknown, and ValueError if it is that of `by`, who would be signed out.
    """
    password = make_password()
    hash_made = hashed(password)
    with store.write():
        role = _account(store, name)["role"]
        if name == by:
            raise ValueError("You change your own password under “Password”, at the top of the page.")
        add_reader(store, name, hash_made, role)
        audit.record(store, by, "password-reset", after={"reader": name})
    return password


def change_password(store: Store, name: str, old: str, new: str) -> str:
    """Gives an account the password that its owner chose, and ends its sessions.

    Returns `password_mark` of the new password, "" if `old` is not the account's password. Raises ValueError if the new
    password equals the old one or is too short.
    """
    if not verify(store, name, old):
        return ""
    if new == old:
        raise ValueError("the new password is the old one")
    hash_made = hashed(new)
    with store.write():
        add_reader(store, name, hash_made, _account(store, name)["role"])
        audit.record(store, name, "password", after={"reader": name})
        return password_mark(store, name)


def keep_account(store: Store, name: str, password: str, role: str, by: str) -> None:
    """Creates an account, or changes its password and role, on behalf of the operator of the server.

    Raises ValueError for an invalid name, password or role, or if no administrator would be left.
    """
    hash_made = hashed(password)
    with store.write():
        existing = _found(store, name)
        if existing:
            set_role(store, name, role, by)
        add_reader(store, name, hash_made, role)
        if existing:
            audit.record(store, by, "password-reset", after={"reader": name})
        else:
            audit.record(store, by, "invite", after={"reader": name, "role": role})


def remove_account(store: Store, name: str, by: str) -> None:
    """Removes an account's password and ends its sessions; its reviews stay.

    Raises NotFound if the account is unknown, and ValueError if it is the last administrator's.
    """
    with store.write():
        role = _account(store, name)["role"]
        _keep_one(store, name, "Make another one before this account is removed.")
        remove_reader(store, name)
        audit.record(store, by, "account-removed", before={"reader": name, "role": role})


def list_accounts(store: Store, study: str) -> list[Row]:
    """Lists everyone who can sign in, by name.

    Returns [{"name", "role", "created", "seen", "last", "tokens", "assigned", "read", "read_in_all"}]. seen: time of
    the latest decision or open sign-in, ISO 8601; None without one. last: whether it is the only administrator. The
    last three count the study's cases, as `dealt` does.
    """
    progress = {row["name"]: row for row in dealt(store, study)["readers"]}
    accounts = store.query(
        "SELECT name, role, created, (SELECT max(s.created) FROM sessions s WHERE s.reader = name) AS entered, "
        "(SELECT count(*) FROM tokens t WHERE t.reader = readers.name) AS tokens, "
        # By stage, as the index is, so that not all decisions of a reader are scanned.
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
            "tokens": row["tokens"],
            **{key: progress[row["name"]][key] for key in ("assigned", "read", "read_in_all")},
        }
        for row in accounts
    ]


def _found(store: Store, name: str) -> Row | None:
    return store.one("SELECT role FROM readers WHERE name = ? AND password_hash IS NOT NULL", [name])


def _account(store: Store, name: str) -> Row:
    row = _found(store, name)
    if row is None:
        raise NotFound(f"unknown reader {name!r}")
    return row


def _administrators(store: Store) -> list[str]:
    query = "SELECT name FROM readers WHERE role = 'administrator' AND password_hash IS NOT NULL"
    return [row["name"] for row in store.query(query)]


def _keep_one(store: Store, name: str, instead: str) -> None:
    if _administrators(store) == [name]:
        raise ValueError(f"{name} is the last administrator. {instead}")

"""Accounts of readers: names, roles and rights, passwords, sign-in sessions, tokens, and assignments of cases."""

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


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def start_sign_in(store: Store, reader: str, hours: float) -> str:
    """Signs a reader in for a number of hours and returns the session's secret, of which only a hash is stored."""
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
    """Returns the reader whose session has this secret, or None if it has ended or the account was removed."""
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
    """Ends all sign-in sessions of a reader and revokes all of the reader's tokens."""
    store.execute("DELETE FROM sessions WHERE reader = ?", [reader])
    store.execute("DELETE FROM tokens WHERE reader = ?", [reader])


# A program signs in with a token instead of a session cookie, until the reader or an administrator revokes the token.

TOKEN = "pmsacl_"  # prefix of every token, so that people and scanners recognise a token in a file


def make_token(store: Store, reader: str, name: str) -> str:
    """Creates an access token for the reader's account and returns the token, of which only a hash is stored.

    Raises ValueError unless `name` has 1 to 64 printable characters, and TooMuch if the reader has too many tokens.
    """
    name = name.strip()
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise ValueError("A token's name has 1 to 64 printable characters. Name what the token is for.")
    secret = TOKEN + secrets.token_urlsafe(32)
    with store.write() as db:
        limits.demand("token", len(list_tokens(store, reader)))
        row = {"hash": _hash(secret), "reader": reader, "name": name, "created": now()}
        db.table("tokens").insert(row)
        audit.record(store, reader, "token", after={"reader": reader, "name": name})
    return secret


def list_tokens(store: Store, reader: str) -> list[Row]:
    """Lists a reader's tokens as [{"id", "name", "created"}], newest first."""
    return store.query("SELECT id, name, created FROM tokens WHERE reader = ? ORDER BY id DESC", [reader])


def reader_of_token(store: Store, secret: str) -> str | None:
    """Returns the reader who owns a token, or None if the token is unknown or the reader's account was removed."""
    row = store.one(
        "SELECT t.reader FROM tokens t JOIN readers r ON r.name = t.reader AND r.password_hash IS NOT NULL "
        "WHERE t.hash = ?",
        [_hash(secret)],
    )
    return row["reader"] if row else None


def revoke_tokens(store: Store, reader: str, by: str, number: int | None = None) -> int:
    """Revokes the reader's token with the id `number`, or all of them if None. Returns how many were revoked.

    Raises NotFound if the reader has no token with this id.
    """
    with store.write() as db:
        query = "DELETE FROM tokens WHERE reader = :reader AND id = coalesce(:number, id)"
        revoked = int(db.execute(query, {"reader": reader, "number": number}).rowcount)
        if number is not None and not revoked:
            raise NotFound(f"Unknown token {number}; it may have been revoked already.")
        audit.record(store, by, "tokens-revoked", before={"reader": reader, "tokens": revoked})
    return revoked


# An account has a name, a role, and a password of which only the Argon2id hash is stored (defaults of argon2-cffi).

ROLES = ("reader", "adjudicator", "administrator")
SHORTEST = 8
_HASHER = PasswordHasher()
_NOBODY = _HASHER.hash("nobody has this password")
_NAME = re.compile(r"[^\W_][\w .@-]{0,63}")


@dataclass(frozen=True)
class Hashed:
    """Password hash. It is computed before a transaction begins, so that other writers do not have to wait."""

    value: str


def hashed(password: str) -> Hashed:
    """Hashes a password in about 50 ms. Raises ValueError if the password has fewer than SHORTEST characters."""
    if len(password) < SHORTEST:
        raise ValueError(f"a password has at least {SHORTEST} characters")
    return Hashed(_HASHER.hash(password))


def add_reader(store: Store, name: str, password: str | Hashed, role: str = "reader") -> None:
    """Creates an account, or sets the password and role of an existing account and ends its sessions and tokens.

    Raises ValueError if the name, the password or the role is invalid.
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
    """Removes a reader's account but keeps the reader's decisions. Raises NotFound if the reader is unknown."""
    if store.one("SELECT 1 FROM readers WHERE name = ?", [name]) is None:
        raise NotFound(f"unknown reader {name!r}")
    with store.write() as db:
        db.execute("UPDATE readers SET password_hash = NULL WHERE name = ?", [name])
        end_sign_ins(store, name)


def list_readers(store: Store) -> list[dict]:
    """Lists all readers, sorted by name, as [{"name", "role", "created", "active": 0 if the account was removed}]."""
    return store.query(
        "SELECT name, role, created, password_hash IS NOT NULL AS active FROM readers ORDER BY name COLLATE NOCASE"
    )


def role_of(store: Store, name: str) -> str | None:
    """Returns the reader's role, or None if no account ever had this name."""
    row = store.one("SELECT role FROM readers WHERE name = ?", [name])
    return row["role"] if row else None


def verify(store: Store, name: str, password: str) -> str:
    """Checks a password. Returns the `password_mark` of the account, or "" if the name or password is wrong.

    The check takes as long for an unknown name as for a known one. A hash with outdated parameters is upgraded.
    """
    row = store.one("SELECT password_hash FROM readers WHERE name = ?", [name])
    stored = (row or {}).get("password_hash")
    try:
        matches = _HASHER.verify(stored or _NOBODY, password) and stored is not None
    except (VerificationError, InvalidHashError):
        return ""
    if stored is None or not matches:
        return ""
    if _HASHER.check_needs_rehash(stored):
        renewed = _HASHER.hash(password)
        query = "UPDATE readers SET password_hash = ? WHERE name = ? AND password_hash = ?"
        with store.write() as db:
            stored = renewed if db.execute(query, [renewed, name, stored]).rowcount else stored
    return _mark(stored)


def password_mark(store: Store, name: str) -> str:
    """Returns a fingerprint that changes with an account's password, or "" if the account has no password."""
    row = store.one("SELECT password_hash FROM readers WHERE name = ?", [name])
    return _mark(row["password_hash"]) if row and row["password_hash"] else ""


def _mark(password_hash: str) -> str:
    return hashlib.sha256(password_hash.encode()).hexdigest()[:16]


class NotAllowed(ValueError):
    """Raised if a reader's role does not permit an action; the message names the roles that do."""


def rights(store: Store, reader: str, single_user: bool) -> dict:
    """Returns a reader's role and rights as {"role", "administer", "adjudicate"}. A single user has all rights."""
    return rights_of(None if single_user else role_of(store, reader), single_user)


def rights_of(role: str | None, single_user: bool) -> dict:
    """Returns the same dictionary as `rights`. role: Role of the reader, or None for a name without an account."""
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
    """Returns the sorted names of active accounts and of readers with decisions in `study` (default: any study)."""
    names = {r["name"] for r in list_readers(store) if r["active"]}
    query = "SELECT DISTINCT reader FROM reviews r"
    if study is not None:
        query += " JOIN cases c ON c.id = r.case_id WHERE c.study = ?"
    names |= {r["reader"] for r in store.query(query, [study] if study else [])}
    return sorted(names, key=str.lower)


def assign(store: Store, study: str, readers: list[str], by: str, *, per_case: int = 1) -> dict[str, int]:
    """Distributes the study's test cases evenly, each to `per_case` of the readers, counting earlier assignments.

    Returns {reader: total number of assigned cases}. Raises ValueError unless `per_case` is 1 to the number of readers.
    """
    if not 1 <= per_case <= len(set(readers)):
        raise ValueError(
            f"each case needs {per_case} readers, but {len(set(readers))} are named: name at least as many"
        )
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
            assigned = readers_of.get(case_id, set())
            free = sorted((n for n in names if n not in assigned), key=lambda n: (load[n], draw.random()))
            for name in free[: max(per_case - len(assigned), 0)]:
                rows.append((case_id, name, by, now()))
                load[name] += 1
        db.conn.executemany("INSERT INTO assignments (case_id, reader, by, created) VALUES (?, ?, ?, ?)", rows)
        audit.record(
            store, by, "assign", study=study, after={"readers": names, "per_case": per_case, "cases": len(rows)}
        )
    return load


def unassign(store: Store, study: str, reader: str, by: str) -> int:
    """Withdraws a reader's assignments of unread cases and returns their number. Cases already read stay assigned."""
    with store.write() as db:
        withdrawn = db.execute(
            "DELETE FROM assignments WHERE reader = :reader AND case_id IN (SELECT id FROM cases WHERE study = :study) "
            "AND NOT EXISTS (SELECT 1 FROM current_reviews k WHERE k.case_id = assignments.case_id "
            "AND k.reader = :reader)",
            {"reader": reader, "study": study},
        ).rowcount
        audit.record(store, by, "unassign", study=study, before={"reader": reader, "cases": withdrawn})
    return withdrawn


def assignment_counts(store: Store, study: str) -> dict:
    """Counts, for each reader of a study, the assigned cases and the cases that the reader has read.

    Returns {"readers": [{"name", "role", "assigned": number of assigned cases, "read": how many of these the reader has
    read, "read_in_all": number of cases read, assigned or not}], "cases": number of test cases, "free": number of test
    cases that are assigned to nobody}.
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
    """Assigns a case to a reader, in addition to any readers who already have the case."""
    study = store.query("SELECT study FROM cases WHERE id = ?", [case_id])[0]["study"]
    with store.write() as db:
        db.execute(
            "INSERT OR IGNORE INTO assignments (case_id, reader, by, created) VALUES (?, ?, ?, ?)",
            [case_id, reader, by, now()],
        )
        audit.record(store, by, "assign", study=study, case_id=case_id, after={"reader": reader})


LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without look-alikes: no i, l, o, 0, 1
GROUPS, LENGTH = 4, 4  # 16 characters, each one of 31, have 79 bits of entropy


def make_password() -> str:
    """Returns a random password in groups that are easy to read aloud, such as 'k7wm-x2fp-ht9c-3sdn'."""
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(LENGTH)) for _ in range(GROUPS))


def invite(store: Store, name: str, role: str, by: str) -> str:
    """Creates an account, or restores a removed one, and returns a new password, of which only a hash is stored.

    Raises ValueError if the name or role is invalid, or if another account has the same name, ignoring case.
    """
    password = make_password()
    hash_made = hashed(password)
    with store.write():
        for row in list_readers(store):
            if row["name"].casefold() == name.casefold() and (row["active"] or row["name"] != name):
                raise ValueError(f"there is already an account named {row['name']!r}")
        add_reader(store, name, hash_made, role)
        audit.record(store, by, "invite", after={"reader": name, "role": role})
    return password


def set_role(store: Store, name: str, role: str, by: str) -> None:
    """Changes the role of an account, with effect from the reader's next request.

    Raises NotFound if the account is unknown, and ValueError if the role is invalid or no administrator would be left.
    """
    if role not in ROLES:
        raise ValueError(f"a reader's role is one of {', '.join(ROLES)}")
    with store.write() as db:
        before = _account(store, name)["role"]
        if before == role:
            return
        _keep_one(store, name, "Make another reader an administrator first.")
        db.execute("UPDATE readers SET role = ? WHERE name = ?", [role, name])
        audit.record(store, by, "role", before={"reader": name, "role": before}, after={"role": role})


def reset_password(store: Store, name: str, by: str) -> str:
    """Gives an account a new random password, returns the password, and ends the account's sessions.

    Raises NotFound if the account is unknown, and ValueError if the account belongs to `by`, who would be signed out.
    """
    password = make_password()
    hash_made = hashed(password)
    with store.write():
        role = _account(store, name)["role"]
        if name == by:
            raise ValueError("Change your own password under “Password”, at the top of the page.")
        add_reader(store, name, hash_made, role)
        audit.record(store, by, "password-reset", after={"reader": name})
    return password


def change_password(store: Store, name: str, old: str, new: str) -> str:
    """Replaces an account's password by one that its owner chose, and ends the account's sessions.

    Returns the `password_mark` of the new password, or "" if `old` is not the account's password. Raises ValueError if
    the new password is too short or equals the old password.
    """
    if not verify(store, name, old):
        return ""
    if new == old:
        raise ValueError("the new password must differ from the old one")
    hash_made = hashed(new)
    with store.write():
        add_reader(store, name, hash_made, _account(store, name)["role"])
        audit.record(store, name, "password", after={"reader": name})
        return password_mark(store, name)


def keep_account(store: Store, name: str, password: str, role: str, by: str) -> None:
    """Creates an account, or changes its password and role, on behalf of the server's operator.

    Raises ValueError if the name, password or role is invalid, or if no administrator would be left.
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
    """Removes an account but keeps the reader's decisions, and records the removal in the audit trail.

    Raises NotFound if the account is unknown, and ValueError if no administrator would be left.
    """
    with store.write():
        role = _account(store, name)["role"]
        _keep_one(store, name, "Make another reader an administrator before you remove this account.")
        remove_reader(store, name)
        audit.record(store, by, "account-removed", before={"reader": name, "role": role})


def list_accounts(store: Store, study: str) -> list[Row]:
    """Lists the accounts that can sign in, sorted by name.

    Returns [{"name", "role", "created", "seen": ISO time of the latest decision or sign-in, or None, "last": whether
    this is the only administrator, "tokens": number of tokens, "assigned", "read", "read_in_all": numbers of the
    study's cases, as in `assignment_counts`}].
    """
    progress = {row["name"]: row for row in assignment_counts(store, study)["readers"]}
    accounts = store.query(
        "SELECT name, role, created, (SELECT max(s.created) FROM sessions s WHERE s.reader = name) AS entered, "
        "(SELECT count(*) FROM tokens t WHERE t.reader = readers.name) AS tokens, "
        # One lookup for each stage uses the index and avoids a scan of all decisions of a reader.
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

"""Neutral names and numbers of cases for readers who read blind, or in a session with neutral names.

A case's own number follows the order of the import, where normal images often come before abnormal ones, and its file's
name and hash can be looked up. None of them reaches a blind reader's browser. A reader knows a case by its place in an
order that was drawn at random once and is kept (migration 0500): other ones for every reader, study and reading
session, and shifted by the sign-in, so that a number of another sign-in is no case.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import secrets
from collections.abc import Iterable

from core.studio.db.store import Row, Store

BASE = 1 << 50  # numbers lie at and above it, and under 2^53, where JavaScript counts exactly; no home has such ids
_PLACES = 27  # bits of a place in an order; above them stands the shift of the sign-in
_SHIFTS = 22


def is_neutral(number: int) -> bool:
    """Whether a number is one that this module makes."""
    return BASE <= number < 2 * BASE


def make_order(store: Store, study: str, reader: str, session: int | None) -> None:
    """Draw the reader's order of a study's cases, or put what was imported since behind it, in a random order too."""
    with store.write() as db:
        where = "study = ? AND reader = ? AND coalesce(session, 0) = ?"
        row = store.one(f"SELECT id FROM neutral_orders WHERE {where}", [study, reader, session or 0])
        number = row["id"] if row else None
        if number is None:
            number = db.execute(
                "INSERT INTO neutral_orders (study, reader, session, secret) VALUES (?, ?, ?, ?)",
                [study, reader, session, secrets.token_hex(32)],
            ).lastrowid
        (cases,) = store.columns(
            "SELECT id FROM cases WHERE study = ? AND id NOT IN (SELECT case_id FROM neutral_cases WHERE list = ?)",
            [study, number],
        )
        behind = "SELECT coalesce(max(position) + 1, 0) AS n FROM neutral_cases WHERE list = ?"
        first = store.first(behind, [number])["n"]
        shuffled = list(cases)
        random.Random(secrets.token_bytes(32)).shuffle(shuffled)
        rows = ((number, first + place, case) for place, case in enumerate(shuffled))
        db.conn.executemany("INSERT INTO neutral_cases (list, position, case_id) VALUES (?, ?, ?)", rows)
        db.execute("UPDATE neutral_orders SET whole = 1 WHERE id = ?", [number])


def name_of(secret: bytes, case_id: int) -> str:
    """What the page calls a case; the secret is the reading session's, or the order's with the sign-in."""
    digest = hashlib.blake2b(b"name" + case_id.to_bytes(8, "big"), key=secret, digest_size=5).digest()
    return f"Case {base64.b32encode(digest).decode()[:6]}"


def session_names(session: Row) -> bytes:
    """The secret of a reading session's names: they are written down and printed, and stay with the session."""
    return bytes.fromhex(session["secret"])


class Aliases:
    """The cases of one study as one reader sees them in one sign-in.

    order: the reader's row of neutral_orders, None where names are not hidden. session: the reader's open reading
    session of the study. sign_in: any text that differs between sign-ins.
    """

    def __init__(self, store: Store, order: Row | None, session: Row | None = None, sign_in: str = ""):
        self.store, self.order = store, order
        self.covers = order is not None
        self._places: dict[int, int] = {}  # case: its place, where it is known already
        if order is not None:
            self._secret = secret_of(order, sign_in)
            self._names = session_names(session) if session else self._secret

    def prepare(self, cases: Iterable[int]) -> None:
        """Look up the places of many cases at once."""
        missing = [case for case in cases if case not in self._places]
        if self.order is None or not missing:
            return
        rows = self.store.query(
            "SELECT n.case_id, n.position FROM json_each(?) j CROSS JOIN neutral_cases n "
            "ON n.case_id = j.value AND n.list = ?",
            [json.dumps(missing), self.order["id"]],
        )
        self._places |= {row["case_id"]: row["position"] for row in rows}

    def know(self, case_id: int, place: int) -> None:
        """Note a case's place that was read on the way."""
        self._places[case_id] = place

    def cases(self, numbers: Iterable[int]) -> dict[int, int]:
        """Own numbers of the cases that neutral numbers speak of; one of another sign-in or order is left out."""
        wanted = {place_of(n): n for n in numbers if is_neutral(n) and (n - BASE) >> _PLACES == _shift(self._secret)}
        rows = self.store.query(
            "SELECT n.position, n.case_id FROM json_each(?) j CROSS JOIN neutral_cases n "
            "ON n.list = ? AND n.position = j.value",
            [json.dumps(list(wanted)), self.order["id"] if self.order else None],
        )
        self._places |= {row["case_id"]: row["position"] for row in rows}
        return {wanted[row["position"]]: row["case_id"] for row in rows}

    def number(self, case_id: int) -> int:
        """The case's number as it may be sent."""
        if self.order is None:
            return case_id
        self.prepare([case_id])
        return BASE + (_shift(self._secret) << _PLACES) + self._places[case_id]

    def name(self, case_id: int) -> str:
        """What the page calls a case whose name is hidden."""
        return name_of(self._names, case_id)

    def mark(self, case_id: int, sha256: str | None) -> str:
        """Of a case's file, for addresses and ETags: its hash, or one that only this sign-in knows."""
        if self.order is None:
            return sha256 or ""
        return hashlib.blake2b(case_id.to_bytes(8, "big"), key=self._secret, digest_size=16).hexdigest()

    def shown(self, row: dict) -> dict:
        """What is said of a case (under `id`), or of something that belongs to one (`case_id`), as it may be sent."""
        if self.order is None:
            return row
        if "case_id" in row:
            return {**row, "case_id": self.number(row["case_id"])}
        case = row["id"]
        out = {**row, "id": self.number(case), "name": self.name(case)}
        if "v" in row:
            out["v"] = self.mark(case, None)[:10]
        if "recording" in row:
            out["recording"] = self.number(row["recording"])
        if "key" in row:
            out["key"] = self.cursor(row["key"])
        if "masks" in row:
            out["masks"] = [self.shown(mask) for mask in row["masks"]]
        return out

    def cursor(self, key: tuple | list | None) -> list | None:
        """The key of a row of the worklist, without the value that the row is sorted by."""
        if key is None or self.order is None:
            return None if key is None else list(key)
        return [0, None, self.number(key[2])]


def secret_of(order: Row, sign_in: str) -> bytes:
    """What numbers, marks and names of a sign-in are made of."""
    return hashlib.blake2b(sign_in.encode(), key=bytes.fromhex(order["secret"]), digest_size=32).digest()


def place_of(number: int) -> int:
    """The place in an order that a neutral number speaks of."""
    return (number - BASE) & ((1 << _PLACES) - 1)


def is_of(number: int, order: Row, sign_in: str) -> bool:
    """Whether a neutral number was made for this order in this sign-in."""
    return (number - BASE) >> _PLACES == _shift(secret_of(order, sign_in))


def _shift(secret: bytes) -> int:
    return int.from_bytes(secret[:4], "big") & ((1 << _SHIFTS) - 1)

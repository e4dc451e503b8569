"""Neutral names of cases for readers who read blind, or in a session with neutral names: random numbers, other ones in
every session.

A case's own number follows the order of the import, where normal images often come before abnormal ones, and the hash
of its file can be looked up. Neither reaches a blind reader's browser: an alias is the number, encrypted with a key of
home, reader and session, with zeros beside it so that an alias of another session is no case.
"""

from __future__ import annotations

import base64
import hashlib
import secrets

from core.studio.db.store import NotFound, Store
from core.studio.review import blind, reading_sessions

BASE = 1 << 50  # aliases lie at and above it, and under 2^53, where JavaScript counts exactly; no home has such numbers
_HALF = 25  # bits; an alias is two halves: 28 bits of the number, 22 of zeros
_ZEROS = 22
_MASK = (1 << _HALF) - 1
_ROUNDS = 6
_SETTING = "alias key"


class Aliases:
    """Cases as one reader sees them in one session. `session` is any text that differs between sign-ins; `over`: the
    names of that reading session, which has ended, instead of those of now."""

    def __init__(self, store: Store, reader: str, session: str = "", over: dict | None = None):
        self.store, self.reader = store, reader
        held = over or reading_sessions.open_session(store, reader)
        whose = f"{reader}\0{session}" + (f"\0{held['id']}" if held else "")
        home = _home_key(store)
        self._key = _key(home, whose)
        # Names are written down and printed: those of a reading session stay when its reader signs in again.
        self._names = _key(home, f"names\0{held['id']}") if held else self._key
        self._blind: dict[str, bool] = {}

    def covers(self, study: str) -> bool:
        """Whether the cases of a study have aliases for this reader."""
        if study not in self._blind:
            self._blind[study] = blind.neutral(self.store, study, self.reader)
        return self._blind[study]

    def real(self, number: int) -> int:
        """The case's own number. Raises NotFound for another session's alias, and for a number that an alias hides."""
        found = self._decrypt(number - BASE) if BASE <= number < 2 * BASE else number
        row = None if found is None else self.store.one("SELECT study FROM cases WHERE id = ?", [found])
        if row is None or (found == number and self.covers(row["study"])):
            raise NotFound(f"There is no case {number}; it may have been removed with its study. Reload the page.")
        return found or 0

    def alias(self, case_id: int) -> int:
        """The number under which this session knows a case of a blind study."""
        left, right = divmod(case_id << _ZEROS, 1 << _HALF)
        for turn in range(_ROUNDS):
            left, right = right, left ^ self._round(turn, right)
        return BASE + (left << _HALF) + right

    def _decrypt(self, block: int) -> int | None:
        left, right = divmod(block, 1 << _HALF)
        for turn in reversed(range(_ROUNDS)):
            left, right = right ^ self._round(turn, left), left
        whole = (left << _HALF) + right
        return None if whole & ((1 << _ZEROS) - 1) else whole >> _ZEROS

    def _round(self, turn: int, half: int) -> int:
        digest = hashlib.blake2b(bytes([turn]) + half.to_bytes(4, "big"), key=self._key, digest_size=4).digest()
        return int.from_bytes(digest, "big") & _MASK

    def mark(self, study: str, sha256: str | None) -> str:
        """Of a file, for addresses and ETags: its hash, or one that only this session knows."""
        if not self.covers(study):
            return sha256 or ""
        return hashlib.blake2b((sha256 or "").encode(), key=self._key, digest_size=16).hexdigest()

    def name(self, case_id: int) -> str:
        """What the page calls a case of a blind study."""
        digest = hashlib.blake2b(b"name" + case_id.to_bytes(8, "big"), key=self._names, digest_size=5).digest()
        return f"Case {base64.b32encode(digest).decode()[:6]}"

    def number(self, study: str, case_id: int) -> int:
        """The case's number as it may be sent."""
        return self.alias(case_id) if self.covers(study) else case_id

    def shown(self, study: str, row: dict) -> dict:
        """What is said of a case (under `id`), or of something that belongs to one (`case_id`), as it may be sent."""
        if not self.covers(study):
            return row
        if "case_id" in row:
            return {**row, "case_id": self.alias(row["case_id"])}
        number = row["id"]
        out = {**row, "id": self.alias(number), "name": self.name(number)}
        if "v" in row:
            out["v"] = self.mark(study, row["v"])[:10]
        if "recording" in row:
            out["recording"] = self.alias(row["recording"])
        if "key" in row:
            out["key"] = self.cursor(study, row["key"])
        if "masks" in row:
            out["masks"] = [self.shown(study, mask) for mask in row["masks"]]
        return out

    def cursor(self, study: str, key: tuple | list | None) -> list | None:
        """The key of a row of the worklist, without the value that the row is sorted by."""
        if key is None or not self.covers(study):
            return None if key is None else list(key)
        return [0, None, self.alias(key[2])]


def _key(home: bytes, whose: str) -> bytes:
    return hashlib.blake2b(whose.encode(), key=home, digest_size=32).digest()


def _home_key(store: Store) -> bytes:
    """Made once for each home; it stays there, so that a page that is open survives a restart of the server."""
    kept = store.setting(_SETTING)
    if kept is None:
        with store.write():
            kept = store.setting(_SETTING)
            if kept is None:
                kept = secrets.token_hex(32)
                store.set_setting(_SETTING, kept)
    return bytes.fromhex(kept)

"""Reading sessions, blind reading and the neutral names of cases: what a reader may know of a case before deciding.

Sign-in sessions are in core/studio/review/people.py.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import secrets
from collections.abc import Iterable

from core.studio.db import audit
from core.studio.db.store import NotFound, Row, Store, now
from core.studio.review.people import role_of

# Reading sessions: a list of cases that one reader reads from the first to the last, blind first or not.
# A reader has at most one open session. Decisions made while it is open belong to it; earlier ones are neither shown
# nor counted.


def open_session(store: Store, reader: str) -> dict | None:
    """Returns the reader's open session; None if there is none."""
    return store.one("SELECT * FROM reading_sessions WHERE reader = ? AND ended IS NULL", [reader])


def get_session(store: Store, session: int, reader: str) -> dict:
    """Returns the reader's session with that number. Raises NotFound if it is another reader's or unknown."""
    row = store.one("SELECT * FROM reading_sessions WHERE id = ? AND reader = ?", [session, reader])
    if row is None:
        raise NotFound(f"You have no reading session {session}.")
    return row


def start_session(
    store: Store,
    study: str,
    reader: str,
    cases: list[int],
    *,
    blind: bool = True,
    neutral: bool = True,
    shuffled: bool = True,
    choice: str = "all",
    run: str | None = None,
) -> int:
    """Opens a session of these cases, in this order, and ends the reader's open one. Returns its number.

    A blind session has neutral names. Raises ValueError without cases, or while a part of a trial is unfinished.
    """
    if not cases:
        raise ValueError("There is no case of that kind to read. Choose other cases.")
    with store.write() as db:
        end_session(store, reader)
        last = store.one("SELECT coalesce(max(id), 0) AS id FROM reviews")
        row = {
            "study": study,
            "reader": reader,
            "blind": int(blind),
            "neutral": int(neutral or blind),
            "shuffled": int(shuffled),
            "choice": choice,
            "run": run,
            "first_review": last["id"] if last else 0,
            "created": now(),
            "secret": secrets.token_hex(32),  # for its neutral names
        }
        marks = ", ".join("?" * len(row))
        added = db.execute(f"INSERT INTO reading_sessions ({', '.join(row)}) VALUES ({marks})", list(row.values()))
        number = added.lastrowid or 0
        rows = ((number, position, case) for position, case in enumerate(cases))
        db.conn.executemany("INSERT INTO reading_session_cases VALUES (?, ?, ?)", rows)
        settings = {k: row[k] for k in ("blind", "neutral", "shuffled", "choice")}
        after = {"session": number, "cases": len(cases), **settings}
        audit.record(store, reader, "session-start", study=study, after=after)
    return number


# How many cases of a trial's part, if the session is one, are not yet read in all of its stages.
_LEFT_OF_PART = """SELECT p.id, (SELECT count(*) FROM reading_session_cases o WHERE o.session = p.session
  AND (SELECT count(DISTINCT r.stage) FROM reviews r WHERE r.case_id = o.case_id AND r.reader = ? AND r.id > ?
    AND r.active = 1 AND r.stage != 'adjudication') < CASE p.arm WHEN 'both' THEN 2 ELSE 1 END) AS n
  FROM trial_parts p JOIN trials t ON t.id = p.trial WHERE p.session = ? AND t.closed IS NULL"""


def end_session(store: Store, reader: str, by: str | None = None) -> int | None:
    """Ends the reader's open session; returns its number, None without one. by: who ends it, if not the reader.

    Raises ValueError if the session belongs to a trial and has unread cases.
    """
    with store.write() as db:
        session = open_session(store, reader)
        if session is None:
            return None
        unread = store.one(_LEFT_OF_PART, [session["reader"], session["first_review"], session["id"]])
        if unread is not None and unread["n"]:
            raise ValueError(f"Your list in a trial has {unread['n']} unread cases. Read them before the session ends.")
        last = store.one("SELECT coalesce(max(id), 0) AS id FROM reviews")
        values = [now(), last["id"] if last else 0, session["id"]]
        db.execute("UPDATE reading_sessions SET ended = ?, last_review = ? WHERE id = ?", values)
        db.execute("DELETE FROM neutral_orders WHERE session = ?", [session["id"]])
        audit.record(store, by or reader, "session-end", study=session["study"], after={"session": session["id"]})
    return session["id"]


def ended_sessions(store: Store, study: str, reader: str | None) -> list[dict]:
    """Lists the reader's (None: everyone's) last 50 ended sessions, newest first, with the number of cases of each."""
    return store.query(
        "SELECT s.id, s.blind, s.neutral, s.shuffled, s.choice, s.created, s.ended, s.reader, "
        "(SELECT count(*) FROM reading_session_cases o WHERE o.session = s.id) AS cases "
        "FROM reading_sessions s WHERE s.study = ? AND (? IS NULL OR s.reader = ?) "
        "AND s.ended IS NOT NULL ORDER BY s.id DESC LIMIT 50",
        [study, reader, reader],
    )


def decisions_of(store: Store, session: dict) -> list[dict]:
    """Lists the session's current reviews, oldest first: id, case_id, stage, decision, seconds, created."""
    return store.query(
        "SELECT r.id, r.case_id, r.stage, r.decision, r.seconds, r.created FROM reading_session_cases o "
        "JOIN reviews r ON r.case_id = o.case_id AND r.reader = ? AND r.active = 1 AND r.stage != 'adjudication' "
        "WHERE o.session = ? AND r.id > ? AND (? IS NULL OR r.id <= ?) ORDER BY r.id",
        [session["reader"], session["id"], session["first_review"], session["last_review"], session["last_review"]],
    )


def last_decision_sql(number: str) -> str:
    """Returns a subquery for a reader's last decision in a session on the case whose id is `number`, an SQL expression.
    Its parameters are the reader and the session's first_review."""
    return (
        f"(SELECT k.decision FROM reviews k WHERE k.case_id = {number} AND k.reader = ? AND k.id > ? AND k.active = 1 "
        "AND k.stage != 'adjudication' ORDER BY k.id DESC LIMIT 1)"
    )


# Neutral names and numbers of cases for readers who read blind, or in a session with neutral names.
# A case's own id follows the order of the import, in which normal images often precede abnormal ones, and its file's
# name and hash can be looked up. None of them reaches a blind reader's browser. A reader knows a case by its position
# in a list that was drawn at random once and stored: a separate one for every reader, study and reading session.

FIRST = 1 << 48  # neutral numbers start above it and stay below 2^53, where JavaScript counts exactly
MASKS = 1 << 52  # numbers of lesion masks lie at and above it, in 48 bits; no home has such ids


def is_neutral_mask(number: int) -> bool:
    """Returns whether a number was made by `Aliases.mask_number`."""
    return MASKS <= number < MASKS + (1 << 48)


def case_listed(store: Store, reader: str, number: int) -> tuple[Row | None, int | None]:
    """Returns the row of the case with a neutral number of the reader, and the list's id; (None, None) if unknown."""
    row = store.one(
        "SELECT o.id AS 'list', c.* FROM neutral_orders o CROSS JOIN neutral_cases n ON n.list = o.id "
        "AND n.position = ? - o.first CROSS JOIN cases c ON c.id = n.case_id WHERE o.reader = ?",
        [number, reader],
    )
    return (None, None) if row is None else (row, row.pop("list"))


def make_order(store: Store, study: str, reader: str, session: int | None) -> None:
    """Draws the reader's order of a study's cases, or appends cases imported since then, also in random order."""
    with store.write() as db:
        where = "study = ? AND reader = ? AND coalesce(session, 0) = ?"
        row = store.one(f"SELECT id FROM neutral_orders WHERE {where}", [study, reader, session or 0])
        number = row["id"] if row else None
        if number is None:
            number = db.execute(
                "INSERT INTO neutral_orders (study, reader, session, secret, first) VALUES (?, ?, ?, ?, ?)",
                [study, reader, session, secrets.token_hex(32), FIRST + secrets.randbits(48)],
            ).lastrowid
        (cases,) = store.columns(
            "SELECT id FROM cases WHERE study = ? AND id NOT IN (SELECT case_id FROM neutral_cases WHERE list = ?)",
            [study, number],
        )
        behind = "SELECT coalesce(max(position) + 1, 0) AS n FROM neutral_cases WHERE list = ?"
        first = store.first(behind, [number])["n"]
        shuffled = list(cases)
        random.Random(secrets.token_bytes(32)).shuffle(shuffled)
        rows = ((number, first + offset, case) for offset, case in enumerate(shuffled))
        db.conn.executemany("INSERT INTO neutral_cases (list, position, case_id) VALUES (?, ?, ?)", rows)
        db.execute("UPDATE neutral_orders SET whole = 1 WHERE id = ?", [number])


def name_of(secret: bytes, case_id: int) -> str:
    """Returns a case's neutral name, derived from the secret of the reading session or of the list."""
    digest = hashlib.blake2b(b"name" + case_id.to_bytes(8, "big"), key=secret, digest_size=5).digest()
    return f"Case {base64.b32encode(digest).decode()[:6]}"


def session_names(session: Row) -> bytes:
    """Returns the secret of a reading session's names, stored with the session because people note and print them."""
    return bytes.fromhex(session["secret"])


class Aliases:
    """The numbers and names of a study's cases as one reader sees them.

    order: the reader's row of neutral_orders, None if names are not hidden. session: the reader's open reading session
    of the study.
    """

    def __init__(self, store: Store, order: Row | None, session: Row | None = None):
        self.store, self.order = store, order
        self.covers, self._first = order is not None, 0
        self._places: dict[int, int] = {}  # case: its position, if already known
        if order is not None:
            self._secret = bytes.fromhex(order["secret"])
            self._first = order["first"]
            self._names = session_names(session) if session else self._secret

    def prepare(self, cases: Iterable[int]) -> None:
        """Looks up the positions of many cases at once."""
        missing = [case for case in cases if case not in self._places]
        if self.order is None or not missing:
            return
        rows = self.store.query(
            "SELECT n.case_id, n.position FROM json_each(?) j CROSS JOIN neutral_cases n "
            "ON n.case_id = j.value AND n.list = ?",
            [json.dumps(missing), self.order["id"]],
        )
        self._places |= {row["case_id"]: row["position"] for row in rows}

    def know(self, case_id: int, number: int) -> None:
        """Stores a case's neutral number that another query has already read."""
        self._places[case_id] = number - self._first

    def cases(self, numbers: Iterable[int]) -> dict[int, int]:
        """Translates neutral numbers: {number: the case's own id}; numbers of other lists are skipped."""
        number_at = {n - self._first: n for n in numbers}
        rows = self.store.query(
            "SELECT n.position, n.case_id FROM json_each(?) j CROSS JOIN neutral_cases n "
            "ON n.list = ? AND n.position = j.value",
            [json.dumps(list(number_at)), self.order["id"] if self.order else None],
        )
        self._places |= {row["case_id"]: row["position"] for row in rows}
        return {number_at[row["position"]]: row["case_id"] for row in rows}

    def number(self, case_id: int) -> int:
        """Returns the case's number as it may be sent to the page."""
        if self.order is None:
            return case_id
        self.prepare([case_id])
        return self._first + self._places[case_id]

    def name(self, case_id: int) -> str:
        """Returns the neutral name of a case."""
        return name_of(self._names, case_id)

    def mark(self, case_id: int, sha256: str | None) -> str:
        """Returns a version mark of a case's file for URLs and ETags: its hash, or a keyed hash under neutral names."""
        if self.order is None:
            return sha256 or ""
        return hashlib.blake2b(case_id.to_bytes(8, "big"), key=self._secret, digest_size=16).hexdigest()

    def mask_number(self, mask: Row) -> int:
        """Returns a lesion mask's number for the page; under neutral names not its id, which would count earlier masks.

        mask: its `id`, `case_id`, `source`, `reader`, and `turn`: its position, from 1, among the masks of this reader
        or import on its case.
        """
        if self.order is None:
            return mask["id"]
        identity = json.dumps([mask["case_id"], mask["source"] == "import", mask["reader"], mask["turn"]])
        digest = hashlib.blake2b(b"mask" + identity.encode(), key=self._secret, digest_size=6).digest()
        return MASKS + int.from_bytes(digest, "big")

    def stamp(self, text: str, case_id: int) -> str:
        """Returns a text about a case, such as when its map was made; under neutral names a keyed hash of it, which
        reveals neither the text nor which cases share it."""
        if self.order is None:
            return text
        return hashlib.blake2b(f"{case_id} {text}".encode(), key=self._secret, digest_size=16).hexdigest()

    def shown(self, row: dict) -> dict:
        """Returns a row with the list's neutral ids and names. row: a case (`id`) or data of one (`case_id`)."""
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
        """Returns the cursor of a worklist row; under neutral names, without the value that sorts the row."""
        if key is None or self.order is None:
            return None if key is None else list(key)
        return [0, None, self.number(key[2])]


# Blind-first reading: the mode of a study, and who reads blind now. What it hides of a case: context.py.

SIGHTED = ("adjudicator", "administrator")
DECIDE_FIRST = "This study is read blind: decide first, then the heat map, the score and the mask are shown."


NOT_OPEN = "You take part in a trial of this study. Open your list in the room Trials; nothing else of it is shown."
NO_MACHINE = "Nothing but your list is shown while you take part in a trial."


class Hidden(ValueError):
    """Raised for a request for something that a blind study or a trial hides from the reader."""


def is_blind(store: Store, study: str) -> bool:
    """Returns whether the study is read blind first."""
    return bool(store.setting(f"blind:{study}", False))


def set_blind(store: Store, study: str, on: bool, by: str) -> None:
    """Switches blind-first reading of a study on or off and records the change in the audit trail."""
    with store.write():
        before = is_blind(store, study)
        if before != on:
            store.set_setting(f"blind:{study}", on)
            audit.record(store, by, "blind", study=study, before=before, after=on)


def standing(store: Store, reader: str) -> dict:
    """Returns {"blind": studies the reader now reads blind, "session": {"id", "study"} of the open one or None}."""
    session = open_session(store, reader)
    read_blind = {row["study"] for row in store.query(IN_TRIALS, {"reader": reader})}
    keys = store.query("SELECT key FROM settings WHERE key LIKE 'blind:%' AND value = 'true' ORDER BY key")
    if keys and role_of(store, reader) not in SIGHTED:
        read_blind |= {row["key"].removeprefix("blind:") for row in keys}
    return {
        "blind": sorted(read_blind | ({session["study"]} if session and session["blind"] else set())),
        "session": session and {"id": session["id"], "study": session["study"]},
    }


# 1 if :reader has an open blind session, and 1 if any study is read blind; studies in the bin do not count.
IN_BLIND_SESSION = (
    "EXISTS (SELECT 1 FROM reading_sessions h CROSS JOIN studies b ON b.id = h.study "
    "WHERE h.reader = :reader AND h.ended IS NULL AND h.blind AND b.binned IS NULL)"
)
ANY_READ_BLIND = (
    "EXISTS (SELECT 1 FROM settings k CROSS JOIN studies b ON b.id = substr(k.key, 7) "
    "WHERE k.key > 'blind:' AND k.key < 'blind;' AND k.value = 'true' AND b.binned IS NULL)"
)


def in_blind_session(store: Store, reader: str) -> bool:
    """Returns whether the reader has an open blind session on a study that is not in the bin."""
    return bool(store.first(f"SELECT {IN_BLIND_SESSION} AS open", {"reader": reader})["open"])


# Studies with a running trial in which :reader takes part.
IN_TRIALS = """SELECT DISTINCT t.study FROM trial_parts p JOIN trials t ON t.id = p.trial
  JOIN studies s ON s.id = t.study WHERE p.reader = :reader AND t.started IS NOT NULL AND t.closed IS NULL
  AND s.binned IS NULL"""


def reads_blind(store: Store, reader: str) -> bool:
    """Returns whether `reader` reads any study blind, or in a trial, or has an open blind session.

    The rooms that show the contents of studies are then closed to the reader. Studies in the bin do not count.
    """
    query = f"SELECT {IN_BLIND_SESSION} OR EXISTS ({IN_TRIALS}) AS open, {ANY_READ_BLIND} AS study"
    row = store.first(query, {"reader": reader})
    return bool(row["open"] or (row["study"] and role_of(store, reader) not in SIGHTED))

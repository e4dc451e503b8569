"""Reading sessions, blind reading, and neutral numbers and names of cases, which reveal nothing about a case.

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

# A reading session is a list of cases that one reader reads in a fixed order, blind or not. A reader has at most one
# open session. Decisions made while the session is open belong to the session; earlier decisions are not shown in it.


def open_session(store: Store, reader: str) -> dict | None:
    """Returns the row of the reader's open reading session, or None if the reader has no open session."""
    return store.one("SELECT * FROM reading_sessions WHERE reader = ? AND ended IS NULL", [reader])


def get_session(store: Store, session: int, reader: str) -> dict:
    """Returns the row of the reader's session with the id `session`. Raises NotFound if there is no such session."""
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
    """Starts a reading session, ends the reader's open session, and returns the id of the new session.

    cases: Ids of the cases in reading order.
    blind: Whether results are hidden until the reader's first decision on a case; implies `neutral`.
    neutral: Whether cases are shown under neutral names.
    shuffled: Whether `cases` is in random order. This is only recorded.
    choice: Key of `session_report.CHOICES` by which the cases were chosen.
    run: Id of the run whose results are shown, or None.

    Raises ValueError if `cases` is empty, or if the open session belongs to a trial and has unread cases.
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
            "secret": secrets.token_hex(32),  # key of the neutral names
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


# Number of cases in a session of a running trial that the reader has not read in all stages.
_LEFT_OF_PART = """SELECT p.id, (SELECT count(*) FROM reading_session_cases o WHERE o.session = p.session
  AND (SELECT count(DISTINCT r.stage) FROM reviews r WHERE r.case_id = o.case_id AND r.reader = ? AND r.id > ?
    AND r.active = 1 AND r.stage != 'adjudication') < CASE p.arm WHEN 'both' THEN 2 ELSE 1 END) AS n
  FROM trial_parts p JOIN trials t ON t.id = p.trial WHERE p.session = ? AND t.closed IS NULL"""


def end_session(store: Store, reader: str, by: str | None = None) -> int | None:
    """Ends the reader's open session and returns the id of the session, or None if no session is open.

    by: Name of the person who ends the session, by default the reader.

    Raises ValueError if the session belongs to a trial and has unread cases.
    """
    with store.write() as db:
        session = open_session(store, reader)
        if session is None:
            return None
        unread = store.one(_LEFT_OF_PART, [session["reader"], session["first_review"], session["id"]])
        if unread is not None and unread["n"]:
            raise ValueError(f"Your list in a trial has {unread['n']} unread cases. Read them before you end it.")
        last = store.one("SELECT coalesce(max(id), 0) AS id FROM reviews")
        values = [now(), last["id"] if last else 0, session["id"]]
        db.execute("UPDATE reading_sessions SET ended = ?, last_review = ? WHERE id = ?", values)
        db.execute("DELETE FROM neutral_orders WHERE session = ?", [session["id"]])
        audit.record(store, by or reader, "session-end", study=session["study"], after={"session": session["id"]})
    return session["id"]


def ended_sessions(store: Store, study: str, reader: str | None) -> list[dict]:
    """Lists the 50 latest ended sessions in a study, of one reader or, if `reader` is None, of all readers."""
    return store.query(
        "SELECT s.id, s.blind, s.neutral, s.shuffled, s.choice, s.created, s.ended, s.reader, "
        "(SELECT count(*) FROM reading_session_cases o WHERE o.session = s.id) AS cases "
        "FROM reading_sessions s WHERE s.study = ? AND (? IS NULL OR s.reader = ?) "
        "AND s.ended IS NOT NULL ORDER BY s.id DESC LIMIT 50",
        [study, reader, reader],
    )


def decisions_of(store: Store, session: dict) -> list[dict]:
    """Lists a session's decisions, oldest first, as [{"id", "case_id", "stage", "decision", "seconds", "created"}].
    Undone decisions are omitted."""
    return store.query(
        "SELECT r.id, r.case_id, r.stage, r.decision, r.seconds, r.created FROM reading_session_cases o "
        "JOIN reviews r ON r.case_id = o.case_id AND r.reader = ? AND r.active = 1 AND r.stage != 'adjudication' "
        "WHERE o.session = ? AND r.id > ? AND (? IS NULL OR r.id <= ?) ORDER BY r.id",
        [session["reader"], session["id"], session["first_review"], session["last_review"], session["last_review"]],
    )


def last_decision_sql(number: str) -> str:
    """Returns an SQL subquery that selects the reader's last decision on a case in a session. Its parameters are the
    reader and the session's `first_review`. number: SQL expression for the case's id."""
    return (
        f"(SELECT k.decision FROM reviews k WHERE k.case_id = {number} AND k.reader = ? AND k.id > ? AND k.active = 1 "
        "AND k.stage != 'adjudication' ORDER BY k.id DESC LIMIT 1)"
    )


# Neutral names and numbers of cases, for blind readers and for sessions with neutral names. The id of a case follows
# the order of the import, in which normal images often precede abnormal ones, and the name and hash of a file can be
# looked up, so none of them reaches the browser of a blind reader. Instead, a case has a number that depends on its
# position in a list. The list is drawn at random for each reader, study and reading session, and stored.

FIRST = 1 << 48  # lowest neutral number; all are below 2^53, up to which JavaScript represents integers exactly
MASKS = 1 << 52  # lowest neutral number of a lesion mask; the numbers have 48 random bits, and no stored id is as high


def is_neutral_mask(number: int) -> bool:
    """Returns whether `number` is a neutral number of a lesion mask."""
    return MASKS <= number < MASKS + (1 << 48)


def case_listed(store: Store, reader: str, number: int) -> tuple[Row | None, int | None]:
    """Returns the row of the case that the reader sees as `number`, and the id of the neutral list with this number.

    Returns (None, None) if no case has this number.
    """
    row = store.one(
        "SELECT o.id AS 'list', c.* FROM neutral_orders o CROSS JOIN neutral_cases n ON n.list = o.id "
        "AND n.position = ? - o.first CROSS JOIN cases c ON c.id = n.case_id WHERE o.reader = ?",
        [number, reader],
    )
    return (None, None) if row is None else (row, row.pop("list"))


def make_order(store: Store, study: str, reader: str, session: int | None) -> None:
    """Draws a random neutral order of a study's cases for a reader, or appends newly imported cases in random order."""
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
    """Returns the neutral name of a case, such as "Case 4XQ7ZB", derived from the secret of a session or list."""
    digest = hashlib.blake2b(b"name" + case_id.to_bytes(8, "big"), key=secret, digest_size=5).digest()
    return f"Case {base64.b32encode(digest).decode()[:6]}"


def session_names(session: Row) -> bytes:
    """Returns the secret from which a reading session's neutral names are derived."""
    return bytes.fromhex(session["secret"])


class Aliases:
    """Translates between the stored ids and names of a study's cases and the numbers and names that one reader sees.

    order: Row of the reader's neutral list, or None if the reader sees the stored ids and names.
    session: Row of the reader's open reading session of the study, or None.
    """

    def __init__(self, store: Store, order: Row | None, session: Row | None = None):
        self.store, self.order = store, order
        self.covers, self._first = order is not None, 0
        self._places: dict[int, int] = {}  # positions that were already read, by case
        if order is not None:
            self._secret = bytes.fromhex(order["secret"])
            self._first = order["first"]
            self._names = session_names(session) if session else self._secret

    def prepare(self, cases: Iterable[int]) -> None:
        """Reads the positions of many cases with one query, so that `number` needs no query for each case."""
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
        """Stores a case's neutral number that is already known, so that `number` needs no query."""
        self._places[case_id] = number - self._first

    def cases(self, numbers: Iterable[int]) -> dict[int, int]:
        """Returns {number: id of the case} for neutral numbers; numbers that are not in the list are skipped."""
        number_at = {n - self._first: n for n in numbers}
        rows = self.store.query(
            "SELECT n.position, n.case_id FROM json_each(?) j CROSS JOIN neutral_cases n "
            "ON n.list = ? AND n.position = j.value",
            [json.dumps(list(number_at)), self.order["id"] if self.order else None],
        )
        self._places |= {row["case_id"]: row["position"] for row in rows}
        return {number_at[row["position"]]: row["case_id"] for row in rows}

    def number(self, case_id: int) -> int:
        """Returns the number under which the reader sees a case: its id or, if names are neutral, a neutral number."""
        if self.order is None:
            return case_id
        self.prepare([case_id])
        return self._first + self._places[case_id]

    def name(self, case_id: int) -> str:
        """Returns the neutral name of a case."""
        return name_of(self._names, case_id)

    def mark(self, case_id: int, sha256: str | None) -> str:
        """Returns a version tag of a case's file for URLs: `sha256` or, if names are neutral, a keyed hash."""
        if self.order is None:
            return sha256 or ""
        return hashlib.blake2b(case_id.to_bytes(8, "big"), key=self._secret, digest_size=16).hexdigest()

    def mask_number(self, mask: Row) -> int:
        """Returns the number under which the reader sees a lesion mask: its id or, if names are neutral, a keyed hash.

        mask: Row with "id", "case_id", "source", "reader" and "turn", which is the mask's position, from 1, among the
            masks of the same case and author.
        """
        if self.order is None:
            return mask["id"]
        identity = json.dumps([mask["case_id"], mask["source"] == "import", mask["reader"], mask["turn"]])
        digest = hashlib.blake2b(b"mask" + identity.encode(), key=self._secret, digest_size=6).digest()
        return MASKS + int.from_bytes(digest, "big")

    def stamp(self, text: str, case_id: int) -> str:
        """Returns `text`, such as the time of a heat map, unchanged or, if names are neutral, as a keyed hash."""
        if self.order is None:
            return text
        return hashlib.blake2b(f"{case_id} {text}".encode(), key=self._secret, digest_size=16).hexdigest()

    def shown(self, row: dict) -> dict:
        """Returns a row with the ids and names that the reader sees. row: A case, or a row that has a "case_id"."""
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
        """Returns a worklist cursor for the page. If names are neutral, the cursor has no sort value."""
        if key is None or self.order is None:
            return None if key is None else list(key)
        return [0, None, self.number(key[2])]


SIGHTED = ("adjudicator", "administrator")
DECIDE_FIRST = "This study is read blind: decide first, then the heat map, the score and the mask are shown."


NOT_OPEN = "You take part in a trial of this study. Open your list in the room Trials: nothing else is shown."
NO_MACHINE = "Only your list is shown while you take part in a trial."


class Hidden(ValueError):
    """Raised if a request asks for data that a blind study or a trial hides from the reader."""


def is_blind(store: Store, study: str) -> bool:
    """Returns whether blind-first reading is switched on for the study."""
    return bool(store.setting(f"blind:{study}", False))


def set_blind(store: Store, study: str, on: bool, by: str) -> None:
    """Switches blind-first reading of a study on or off and records the change in the audit trail."""
    with store.write():
        before = is_blind(store, study)
        if before != on:
            store.set_setting(f"blind:{study}", on)
            audit.record(store, by, "blind", study=study, before=before, after=on)


def session_status(store: Store, reader: str) -> dict:
    """Returns {"blind": ids of the studies that the reader reads blind, "session": the reader's open reading session as
    {"id", "study"}, or None}."""
    session = open_session(store, reader)
    read_blind = {row["study"] for row in store.query(IN_TRIALS, {"reader": reader})}
    keys = store.query("SELECT key FROM settings WHERE key LIKE 'blind:%' AND value = 'true' ORDER BY key")
    if keys and role_of(store, reader) not in SIGHTED:
        read_blind |= {row["key"].removeprefix("blind:") for row in keys}
    return {
        "blind": sorted(read_blind | ({session["study"]} if session and session["blind"] else set())),
        "session": session and {"id": session["id"], "study": session["study"]},
    }


# Whether :reader has an open blind session, and whether any study is read blind. Studies in the bin do not count.
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


# Ids of the studies with a running trial in which :reader takes part.
IN_TRIALS = """SELECT DISTINCT t.study FROM trial_parts p JOIN trials t ON t.id = p.trial
  JOIN studies s ON s.id = t.study WHERE p.reader = :reader AND t.started IS NOT NULL AND t.closed IS NULL
  AND s.binned IS NULL"""


def reads_blind(store: Store, reader: str) -> bool:
    """Returns whether the reader reads any study blind or in a trial; studies in the bin do not count.

    If so, all rooms that show the contents of studies are closed to the reader.
    """
    query = f"SELECT {IN_BLIND_SESSION} OR EXISTS ({IN_TRIALS}) AS open, {ANY_READ_BLIND} AS study"
    row = store.first(query, {"reader": reader})
    return bool(row["open"] or (row["study"] and role_of(store, reader) not in SIGHTED))

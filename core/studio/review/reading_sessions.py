"""Reading sessions: a list of cases that one reader reads from the first to the last, blind first or not.

A reader has one open session at most. What is decided while it is open belongs to it; earlier decisions are neither
shown nor counted. sessions.py holds another kind of session: who is signed in.
"""

from __future__ import annotations

import secrets

from core.studio.db import audit
from core.studio.db.store import NotFound, Store, now


def open_session(store: Store, reader: str, study: str | None = None) -> dict | None:
    """The reader's open session, of `study` if that is named; None if there is none."""
    query = "SELECT * FROM reading_sessions WHERE reader = ? AND ended IS NULL AND (? IS NULL OR study = ?)"
    return store.one(query, [reader, study, study])


def get(store: Store, session: int, reader: str) -> dict:
    """The reader's session of that number. Raises NotFound if it is another reader's, or none."""
    row = store.one("SELECT * FROM reading_sessions WHERE id = ? AND reader = ?", [session, reader])
    if row is None:
        raise NotFound(f"You have no reading session {session}.")
    return row


def start(
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
    """Open a session of these cases, in this order; the one that is open ends. Returns its number.

    A blind session has neutral names. Raises ValueError if there is no case.
    """
    if not cases:
        raise ValueError("There is no case of that kind to read. Choose other cases.")
    with store.write() as db:
        end(store, reader)
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
            "secret": secrets.token_hex(32),  # of its neutral names
        }
        marks = ", ".join("?" * len(row))
        added = db.execute(f"INSERT INTO reading_sessions ({', '.join(row)}) VALUES ({marks})", list(row.values()))
        number = added.lastrowid or 0
        rows = ((number, position, case) for position, case in enumerate(cases))
        db.conn.executemany("INSERT INTO reading_session_cases VALUES (?, ?, ?)", rows)
        after = {
            "session": number,
            "cases": len(cases),
            **{k: row[k] for k in ("blind", "neutral", "shuffled", "choice")},
        }
        audit.record(store, reader, "session-start", study=study, after=after)
    return number


def end(store: Store, reader: str) -> int | None:
    """End the reader's open session; its number, or None if there was none."""
    with store.write() as db:
        held = open_session(store, reader)
        if held is None:
            return None
        last = store.one("SELECT coalesce(max(id), 0) AS id FROM reviews")
        values = [now(), last["id"] if last else 0, held["id"]]
        db.execute("UPDATE reading_sessions SET ended = ?, last_review = ? WHERE id = ?", values)
        db.execute("DELETE FROM neutral_orders WHERE session = ?", [held["id"]])
        audit.record(store, reader, "session-end", study=held["study"], after={"session": held["id"]})
    return held["id"]


def listed(store: Store, study: str, reader: str | None) -> list[dict]:
    """The reader's sessions that are over, None: everyone's; the last one first, with how many cases each has."""
    return store.query(
        "SELECT s.id, s.blind, s.neutral, s.shuffled, s.choice, s.created, s.ended, s.reader, "
        "(SELECT count(*) FROM reading_session_cases o WHERE o.session = s.id) AS cases "
        "FROM reading_sessions s WHERE s.study = ? AND (? IS NULL OR s.reader = ?) "
        "AND s.ended IS NOT NULL ORDER BY s.id DESC LIMIT 50",
        [study, reader, reader],
    )


def decisions_of(store: Store, session: dict) -> list[dict]:
    """The session's reviews that stand, oldest first: id, case_id, stage, decision, seconds, created."""
    return store.query(
        "SELECT r.id, r.case_id, r.stage, r.decision, r.seconds, r.created FROM reading_session_cases o "
        "JOIN reviews r ON r.case_id = o.case_id AND r.reader = ? AND r.active = 1 AND r.stage != 'adjudication' "
        "WHERE o.session = ? AND r.id > ? AND (? IS NULL OR r.id <= ?) ORDER BY r.id",
        [session["reader"], session["id"], session["first_review"], session["last_review"], session["last_review"]],
    )


def word(number: str) -> str:
    """SQL of what the session's reader said last of the case whose id is the SQL `number`; its two parameters are the
    reader and first_review."""
    return (
        f"(SELECT k.decision FROM reviews k WHERE k.case_id = {number} AND k.reader = ? AND k.id > ? AND k.active = 1 "
        "AND k.stage != 'adjudication' ORDER BY k.id DESC LIMIT 1)"
    )

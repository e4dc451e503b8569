"""Decisions: added, never rewritten; each with its event in the same transaction; undone and redone across cases."""

from __future__ import annotations

import hashlib
import json

from core.studio.db import audit
from core.studio.db.store import NotFound, Store, now
from core.studio.review import blind, reading_sessions

DECISIONS = ("normal", "abnormal", "unsure")


def case_row(store: Store, case_id: int) -> dict:
    """The case's row; NotFound says how to go on."""
    row = store.one("SELECT * FROM cases WHERE id = ?", [case_id])
    if row is None:
        raise NotFound(f"There is no case {case_id}; it may have been removed with its study. Reload the page.")
    return row


def decide(
    store: Store,
    case_id: int,
    reader: str,
    decision: str,
    *,
    comment: str = "",
    seconds: float | None = None,
    run: str | None = None,
    shown: dict | None = None,
    adjudication: bool = False,
    token: str | None = None,
) -> dict:
    """Store a decision durably; returns {"review", "case", "stage", "decision"}.

    In a blind study the first word is `first`, what follows it `second`. `token` names the request: sent again, it
    is answered as before and stores nothing.
    """
    if decision not in DECISIONS:
        raise ValueError(f"a decision is one of {', '.join(DECISIONS)}, not {decision!r}")
    token = _own(token, reader, "decide", case_id)
    with store.write() as db:
        known = _answered(store, token)
        if known is not None:
            return known
        case = case_row(store, case_id)
        stage = "first"
        if adjudication:
            stage = "adjudication"
        elif blind.in_two_stages(store, case["study"], reader) and blind.committed(store, case_id, reader):
            stage = "second"
        if stage == "first" and blind.hides(store, case, reader):
            shown, run = {"blind": True}, None
        before = current(store, case_id, reader, stage)
        row = {
            "case_id": case_id,
            "reader": reader,
            "decision": decision,
            "comment": comment,
            "created": now(),
            "seconds": seconds,
            "run": run,
            "shown": json.dumps(shown or {}),
            "stage": stage,
            "active": 1,
        }
        marks = ", ".join("?" * len(row))
        added = db.execute(f"INSERT INTO reviews ({', '.join(row)}) VALUES ({marks})", list(row.values()))
        review = added.lastrowid
        db.execute("DELETE FROM undone WHERE reader = ? AND study = ?", [reader, case["study"]])
        audit.record(
            store,
            reader,
            "decision",
            study=case["study"],
            case_id=case_id,
            before=before and before["decision"],
            after={"review": review, "decision": decision, "comment": comment, "stage": stage, "run": run},
            shown=shown,
            seconds=seconds,
        )
        answer = {"review": review, "case": case_id, "stage": stage, "decision": decision}
        _keep(store, token, answer)
    return answer


def current(store: Store, case_id: int, reader: str, stage: str) -> dict | None:
    """The review that counts for this case, reader and stage."""
    query = (
        "SELECT r.* FROM current_reviews k JOIN reviews r ON r.id = k.review_id "
        "WHERE k.case_id = ? AND k.reader = ? AND k.stage = ?"
    )
    return store.one(query, [case_id, reader, stage])


def undo(store: Store, study: str, reader: str, token: str | None = None) -> dict | None:
    """Take back the reader's last decision in the study; an earlier one on that case counts again. None: nothing left.

    A blind first decision stands: what was seen after it cannot be unseen.
    """
    token = _own(token, reader, "undo", study)
    with store.write() as db:
        known = _answered(store, token)
        if known is not None:
            return known
        held = reading_sessions.open_session(store, reader, study)
        last = store.one(
            "SELECT r.* FROM reviews r JOIN cases c ON c.id = r.case_id WHERE r.reader = ? AND c.study = ? "
            "AND r.active = 1 AND r.id > ? ORDER BY r.id DESC LIMIT 1",
            [reader, study, held["first_review"] if held else 0],
        )
        if last is None:
            return None
        if last["stage"] == "first" and json.loads(last["shown"]).get("blind"):
            raise ValueError("A blind first decision stands. Give your second decision on the case instead.")
        db.execute("UPDATE reviews SET active = 0 WHERE id = ?", [last["id"]])
        db.execute("INSERT OR REPLACE INTO undone VALUES (?, ?, ?)", [last["id"], reader, study])
        return _record_change(store, "undo", last, study, reader, token)


def redo(store: Store, study: str, reader: str, token: str | None = None) -> dict | None:
    """Give back the decision undone last, as long as nothing new was decided since. None: nothing to redo."""
    token = _own(token, reader, "redo", study)
    with store.write() as db:
        known = _answered(store, token)
        if known is not None:
            return known
        query = (
            "SELECT r.* FROM undone u JOIN reviews r ON r.id = u.review_id "
            "WHERE u.reader = ? AND u.study = ? ORDER BY r.id LIMIT 1"
        )
        last = store.one(query, [reader, study])
        if last is None:
            return None
        db.execute("UPDATE reviews SET active = 1 WHERE id = ?", [last["id"]])
        db.execute("DELETE FROM undone WHERE review_id = ?", [last["id"]])
        return _record_change(store, "redo", last, study, reader, token)


def _record_change(store: Store, kind: str, review: dict, study: str, reader: str, token: str | None) -> dict:
    now_counts = current(store, review["case_id"], reader, review["stage"])
    audit.record(
        store,
        reader,
        kind,
        study=study,
        case_id=review["case_id"],
        before={"review": review["id"], "decision": review["decision"]},
        after=now_counts and {"review": now_counts["id"], "decision": now_counts["decision"]},
    )
    answer = {"case": review["case_id"], "review": review["id"], "decision": now_counts and now_counts["decision"]}
    _keep(store, token, answer)
    return answer


def _own(token: str | None, reader: str, act: str, subject: int | str) -> str | None:
    """What is kept of a request's token: nobody else's, no other case's and no other act's request is taken for it."""
    return hashlib.sha256(json.dumps([token, reader, act, subject]).encode()).hexdigest() if token else None


def _answered(store: Store, token: str | None) -> dict | None:
    row = store.one("SELECT answer FROM answered WHERE token = ?", [token]) if token else None
    return json.loads(row["answer"]) if row else None


def _keep(store: Store, token: str | None, answer: dict) -> None:
    if token:
        store.db.execute("INSERT INTO answered VALUES (?, ?, ?)", [token, now(), json.dumps(answer)])


def history(store: Store, case_id: int, reader: str | None = None) -> list[dict]:
    """Every review of the case, oldest first, undone ones included; of one reader if named."""
    query = "SELECT * FROM reviews WHERE case_id = :case AND (:reader IS NULL OR reader = :reader) ORDER BY id"
    rows = store.query(query, {"case": case_id, "reader": reader})
    return [{**row, "shown": json.loads(row["shown"])} for row in rows]

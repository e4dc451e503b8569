"""Reading sessions: the choice of a session's cases, the summary of a session and its printed sheet."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from core.studio.db.store import Store
from core.studio.ingest.records import name_shown
from core.studio.review import sessions
from core.studio.review.agreement import cohen, table_of
from core.studio.review.cases import scored_runs
from core.studio.review.context import RequestContext
from core.studio.review.decisions import DECISIONS
from core.studio.review.results import confusion
from core.studio.review.sessions import name_of, session_names
from core.studio.review.worklist import Query, Worklist

CHOICES: dict[str, tuple[str, dict[str, Any]]] = {  # name: (title, fields of the worklist's Query)
    "all": ("All test cases", {}),
    "unread": ("What I have not read", {"decision": "unread"}),
    "assigned": ("What is assigned to me", {"mine": True}),
    "flagged": ("What the detector flags", {"flagged": True}),
    "against": ("What I read otherwise than the detector", {"decision": "against"}),
}

TRIAL = "A part of a trial"  # core/studio/trials/ starts these sessions


def _list(context: RequestContext, choice: str) -> Worklist:
    if choice not in CHOICES:
        raise ValueError(f"The cases of a session are one of {', '.join(CHOICES)}, not {choice!r}.")
    return Worklist(context, Query(**CHOICES[choice][1]))


def available(context: RequestContext) -> list[dict]:
    """Lists the ways to choose cases for a new session as [{"name", "title", "cases": number of cases}]."""
    rows = []
    for name, (title, _) in CHOICES.items():
        if (context.run is None or context.blinded) and name in ("flagged", "against"):
            continue
        worklist = _list(context, name)
        number = worklist.total() if worklist.query.decision else worklist.counts()["total"]
        rows.append({"name": name, "title": title, "cases": number})
    return rows


def chosen(context: RequestContext, choice: str, count: int, shuffled: bool, seed: int) -> list[int]:
    """Returns the ids of the cases of a new session.

    choice: Key of CHOICES. At most `count` of its cases are returned, or all if `count` is 0.
    shuffled: Whether to draw the cases at random and in random order, instead of taking the first ones of the worklist.
    """
    ids = _list(context, choice).neighbour(None, count=1_000_000)
    if shuffled:
        ids.sort()  # the worklist's order may follow the score, which must not affect the draw
        random.Random(seed).shuffle(ids)
    return ids[:count] if count else ids


def summary(store: Store, session: dict) -> dict:
    """Summarises a session, which may still be open.

    Returns {"cases": number of cases, "read": number of read cases, "seconds": quartiles and sum of the times per case,
    "decisions": number of last decisions of each kind, "changed": number of cases whose decision changed, "point":
    `confusion` of the reader's last decisions, without unsure ones, against the labels, "detector": `confusion` of the
    run's flags on the same cases, "agreement": results of `cohen` with the run's flags and with each other reader}.
    """
    first, last, seconds = decisions_and_times(store, session)
    cases = store.query(
        "SELECT o.case_id AS id, c.label, coalesce(r.flagged_roi, r.flagged) AS flagged FROM reading_session_cases o "
        "JOIN cases c ON c.id = o.case_id LEFT JOIN readings r ON r.case_id = o.case_id AND r.run = ? "
        "WHERE o.session = ? ORDER BY o.position",
        [session["run"], session["id"]],
    )
    sure = {i: word for i, word in last.items() if word != "unsure"}
    labels = {c["id"]: c["label"] == "abnormal" for c in cases if c["label"] != "unknown"}
    flags = {c["id"]: bool(c["flagged"]) for c in cases if c["flagged"] is not None}
    both = [i for i in sure if i in labels]
    scored = [i for i in both if i in flags]
    by_flag = {i: "abnormal" if on else "normal" for i, on in flags.items()}
    words_by_reader = _others(store, session)
    return {
        "cases": len(cases),
        "read": len(last),
        "seconds": _times(seconds),
        "decisions": {name: sum(word == name for word in last.values()) for name in DECISIONS},
        "changed": sum(last[i] != word for i, word in first.items()),
        "point": _point(labels, {i: sure[i] == "abnormal" for i in both}),
        "detector": _point(labels, {i: flags[i] for i in scored}),
        "agreement": [
            {"with": "the detector's flags", **cohen(table_of(last, by_flag))},
            *({"with": name, **cohen(table_of(last, words))} for name, words in words_by_reader.items()),
        ],
    }


def decisions_and_times(store: Store, session: dict) -> tuple[dict[int, str], dict[int, str], dict[int, float]]:
    """Returns three dictionaries by case id: a session's first decisions, last decisions and total seconds."""
    first: dict[int, str] = {}
    last: dict[int, str] = {}
    seconds: dict[int, float] = {}
    for row in sessions.decisions_of(store, session):
        first.setdefault(row["case_id"], row["decision"])
        last[row["case_id"]] = row["decision"]
        if row["seconds"] is not None:
            seconds[row["case_id"]] = seconds.get(row["case_id"], 0.0) + row["seconds"]
    return first, last, seconds


def _times(seconds: dict[int, float]) -> dict | None:
    if not seconds:
        return None
    values = np.array(list(seconds.values()))
    low, middle, high = np.percentile(values, (25, 50, 75))
    return {"median": float(middle), "low": float(low), "high": float(high), "total": float(values.sum())}


def _point(labels: dict[int, bool], decisions: dict[int, bool]) -> dict | None:
    if not decisions:
        return None
    truth = np.array([labels[i] for i in decisions], bool)
    return confusion(truth, np.array(list(decisions.values()), bool))


def _others(store: Store, session: dict) -> dict[str, dict[int, str]]:
    rows = store.query(
        "SELECT k.case_id, k.reader, k.decision FROM reading_session_cases o JOIN current_reviews k "
        "ON k.case_id = o.case_id WHERE o.session = ? AND k.reader != ? AND k.stage != 'adjudication' "
        "ORDER BY k.reader, k.stage",
        [session["id"], session["reader"]],
    )
    by_reader: dict[str, dict[int, str]] = {}
    for row in rows:
        by_reader.setdefault(row["reader"], {})[row["case_id"]] = row["decision"]
    return by_reader


def visible(store: Store, session: dict, hidden: bool) -> dict:
    """Returns the `summary` of an ended session. Raises ValueError if the session is open.

    hidden: Whether to omit results that depend on labels, the run or other readers, because the reader is blind.
    """
    if session["ended"] is None:
        raise ValueError("A session has no summary while it is open. End the session first.")
    report = summary(store, session)
    return report | {"point": None, "detector": None, "agreement": []} if hidden else report


def sheet(store: Store, session: dict, hidden: bool) -> dict[str, Any]:
    """Returns the content of the printed sheet of an ended session. Raises ValueError if the session is open.

    hidden: Whether to omit results and to use neutral names, because the reader is blind.

    Returns the `visible` summary and {"study", "reader", "which": title of the choice of cases, "run": row of
    `scored_runs`, or None if the run was deleted, "code": version of the code that trained it, "rows": [{"name",
    "first", "decision", "seconds", "percentile", "flagged"}] in the order of the session}. Unknown values are None.
    """
    report = visible(store, session, hidden)
    first, last, seconds = decisions_and_times(store, session)
    neutral = hidden or bool(session["neutral"])
    cases = store.query(
        "SELECT c.id, c.name, c.added, coalesce(r.percentile_roi, r.percentile) AS percentile, "
        "coalesce(r.flagged_roi, r.flagged) AS flagged FROM reading_session_cases o JOIN cases c ON c.id = o.case_id "
        "LEFT JOIN readings r ON r.case_id = o.case_id AND r.run = ? WHERE o.session = ? ORDER BY o.position",
        [session["run"], session["id"]],
    )
    code_row = store.one("SELECT code FROM runs WHERE id = ?", [session["run"]])
    return {
        **report,
        "study": session["study"],
        "reader": session["reader"],
        "which": CHOICES[session["choice"]][0] if session["choice"] in CHOICES else TRIAL,
        "run": next((run for run in scored_runs(store, session["study"]) if run["id"] == session["run"]), None),
        "code": code_row["code"] if code_row else None,
        "rows": [
            {
                "name": name_of(session_names(session), c["id"]) if neutral else name_shown(c),
                "first": first.get(c["id"]),
                "decision": last.get(c["id"]),
                "seconds": seconds.get(c["id"]),
                "percentile": None if hidden else c["percentile"],
                "flagged": None if hidden or c["flagged"] is None else bool(c["flagged"]),
            }
            for c in cases
        ],
    }


def readable(store: Store, number: int, reader: str, administers: bool) -> dict:
    """Returns the row of a session to its own reader or to an administrator. Raises NotFound for anyone else.

    number: Id of the session.
    administers: Whether `reader` is an administrator.
    """
    row = store.one("SELECT reader FROM reading_sessions WHERE id = ?", [number]) if administers else None
    return sessions.get_session(store, number, row["reader"] if row else reader)

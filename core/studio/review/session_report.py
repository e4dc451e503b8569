"""The summary of a reading session: time for each case, agreement, and the reader's operating point."""

from __future__ import annotations

import numpy as np

from core.studio.db.store import Store
from core.studio.review import reading_sessions
from core.studio.review.agreement import cohen
from core.studio.review.decisions import DECISIONS
from core.studio.review.results import confusion

_INDEX = {name: i for i, name in enumerate(DECISIONS)}


def summary(store: Store, session: dict) -> dict:
    """Of a session that is over or open: {"cases", "read", "seconds", "changed", "point", "detector", "agreement"}.

    point: the reader's sensitivity and specificity against the labels, by last decisions, `unsure` left out. detector:
    the same of the session's run on the same cases. agreement: Cohen's kappa with the run's flags and with each other
    reader, over the cases that both decided.
    """
    first, last, seconds = said(store, session)
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
    others = _others(store, session)
    return {
        "cases": len(cases),
        "read": len(last),
        "seconds": _times(seconds),
        "decisions": {name: sum(word == name for word in last.values()) for name in DECISIONS},
        "changed": sum(last[i] != word for i, word in first.items()),
        "point": _point(labels, {i: sure[i] == "abnormal" for i in both}),
        "detector": _point(labels, {i: flags[i] for i in scored}),
        "agreement": [
            {"with": "the detector's flags", **_kappa(last, by_flag)},
            *({"with": name, **_kappa(last, words)} for name, words in others.items()),
        ],
    }


def said(store: Store, session: dict) -> tuple[dict[int, str], dict[int, str], dict[int, float]]:
    """First and last decision of each case, and the seconds that all of its decisions took."""
    first: dict[int, str] = {}
    last: dict[int, str] = {}
    seconds: dict[int, float] = {}
    for row in reading_sessions.decisions_of(store, session):
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


def _point(labels: dict[int, bool], found: dict[int, bool]) -> dict | None:
    if not found:
        return None
    truth = np.array([labels[i] for i in found], bool)
    return confusion(truth, np.array(list(found.values()), bool))


def _kappa(mine: dict[int, str], theirs: dict[int, str]) -> dict:
    table = np.zeros((3, 3), int)
    for case, word in mine.items():
        if case in theirs:
            table[_INDEX[word], _INDEX[theirs[case]]] += 1
    return cohen(table)


def _others(store: Store, session: dict) -> dict[str, dict[int, str]]:
    """Other readers' last words on the session's cases."""
    rows = store.query(
        "SELECT k.case_id, k.reader, k.decision FROM reading_session_cases o JOIN current_reviews k "
        "ON k.case_id = o.case_id WHERE o.session = ? AND k.reader != ? AND k.stage != 'adjudication' "
        "ORDER BY k.reader, k.stage",
        [session["id"], session["reader"]],
    )
    found: dict[str, dict[int, str]] = {}
    for row in rows:
        found.setdefault(row["reader"], {})[row["case_id"]] = row["decision"]
    return found

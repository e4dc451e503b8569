"""A reading session as it is printed: its summary, what it was made with, and a row for each case."""

from __future__ import annotations

from typing import Any

from core.studio.db.store import Store
from core.studio.review import reading_sessions, session_report
from core.studio.review.aliases import name_of, session_names
from core.studio.review.cases import scored_runs
from core.studio.review.session_choice import CHOICES


def visible(store: Store, session: dict, hidden: bool) -> dict:
    """The summary of a session that is over, less the labels, the detector and other readers where `hidden`.

    hidden: whether the study is read blind now by whoever asks. Raises ValueError while the session goes on.
    """
    if session["ended"] is None:
        raise ValueError("The summary is made when the session has ended.")
    found = session_report.summary(store, session)
    return found | {"point": None, "detector": None, "agreement": []} if hidden else found


def sheet(store: Store, session: dict, hidden: bool) -> dict[str, Any]:
    """`visible` and {"study", "reader", "which", "run", "code", "rows"}.

    run: as `cases.scored_runs` has it, or None where it has gone; code: the commit that it was made with. rows, in the
    order of the session: {"name", "first", "decision", "seconds", "percentile", "flagged"}, None where nothing is
    known or `hidden` forbids. A name is the session's neutral one unless the session showed real names and
    the study is open. Raises ValueError while the session goes on.
    """
    found = visible(store, session, hidden)
    first, last, seconds = session_report.said(store, session)
    neutral = hidden or bool(session["neutral"])
    cases = store.query(
        "SELECT c.id, c.name, coalesce(r.percentile_roi, r.percentile) AS percentile, "
        "coalesce(r.flagged_roi, r.flagged) AS flagged FROM reading_session_cases o JOIN cases c ON c.id = o.case_id "
        "LEFT JOIN readings r ON r.case_id = o.case_id AND r.run = ? WHERE o.session = ? ORDER BY o.position",
        [session["run"], session["id"]],
    )
    made = store.one("SELECT code FROM runs WHERE id = ?", [session["run"]])
    return {
        **found,
        "study": session["study"],
        "reader": session["reader"],
        "which": CHOICES[session["choice"]][0],
        "run": next((run for run in scored_runs(store, session["study"]) if run["id"] == session["run"]), None),
        "code": made["code"] if made else None,
        "rows": [
            {
                "name": name_of(session_names(session), c["id"]) if neutral else c["name"],
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
    """The session of that number, if it is the reader's own or the reader administers. Raises NotFound otherwise."""
    row = store.one("SELECT reader FROM reading_sessions WHERE id = ?", [number]) if administers else None
    return reading_sessions.get(store, number, row["reader"] if row else reader)

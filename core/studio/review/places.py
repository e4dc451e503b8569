"""Where in the worklist a case stands, and how the scores of its cases are spread: for the grid and the score strip.

Places are counted along the same indices as the pages; see orders.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from core.studio.db.store import Store
from core.studio.review import orders, worklist
from core.studio.review.worklist import Query, seen_by

BINS = 64
TAIL = 0.5  # per cent of the scores, at either end, that the strip draws in its first and last bin


def _count(store: Store, statement: str, params: list) -> int:
    return store.query(f"SELECT count(*) AS n FROM ({statement})", params)[0]["n"]


def total(store: Store, q: Query) -> int:
    """How many rows the list has."""
    q = seen_by(store, q)
    found = 0
    for part in orders.parts(q):
        where, params = orders.filters(q, part.id)
        sql, given = part.count(q, where, params)
        found += store.query(sql, given)[0]["n"]
    return found


def place(store: Store, q: Query, case_id: int) -> int | None:
    """How many rows of the list come before the case; None if its order does not reach the case."""
    key = worklist.key_of(store, q, case_id)
    if key is None:
        return None
    q = seen_by(store, q)
    before = 0
    for number, part in enumerate(orders.parts(q)[: key[0] + 1]):
        where, params = orders.filters(q, part.id)
        here = key if number == key[0] else None
        before += _count(store, *part.select(q, here, not q.descending, where, params))
    return before


def _scored(q: Query) -> tuple[orders.Part, list[str], list]:
    """The scan of the list's scores, whatever its order; with its filters. `q` as seen_by has it."""
    part = orders.parts(replace(q, session=None, sort="score"))[0]
    where, params = orders.filters(q, part.id)
    if q.session is not None:
        member = "SELECT 1 FROM reading_session_cases o WHERE o.session = ? AND o.case_id = "
        where, params = [*where, f"EXISTS ({member}{part.id})"], [*params, q.session["id"]]
    return part, where, params


def nearest(store: Store, q: Query, score: float) -> int | None:
    """The case of the list whose score is nearest; None where scores are hidden or there are none."""
    q = seen_by(store, q)
    if q.hidden or q.run is None:
        return None
    part, where, params = _scored(q)
    found: list[tuple[float, int]] = []
    for down, sign in ((False, ">="), (True, "<=")):
        sql, given = part.select(q, None, down, [*where, f"{part.value} {sign} ?"], [*params, score])
        found += [(abs(r["value"] - score), r["id"]) for r in store.query(f"{sql} LIMIT 1", given)]
    return min(found)[1] if found else None


def threshold(store: Store, q: Query) -> float | None:
    """The score that divides a run's flagged cases from the others; None if all are alike.

    A case is flagged by its score alone, hence the first so many by score are the flagged ones.
    """
    score, end = orders.column(q, "score"), "_roi" * q.roi
    flagged = (
        f"SELECT 1 FROM readings INDEXED BY readings_flagged{end} WHERE run = ? AND {orders.column(q, 'flagged')} = 1"
    )
    count = _count(store, flagged, [q.run])
    if not count:
        return None
    rows = store.query(
        f"SELECT {score} AS score FROM readings INDEXED BY readings_by_{score} WHERE run = ? AND {score} IS NOT NULL "
        f"ORDER BY {score} DESC LIMIT 2 OFFSET ?",
        [q.run, count - 1],
    )
    return (rows[0]["score"] + rows[1]["score"]) / 2 if len(rows) == 2 else None


def distribution(store: Store, q: Query) -> dict | None:
    """{"bins": counts from low to high, "lo", "hi": ends of the bins, "threshold"}; None where scores are hidden or
    there are none. Scores beyond the ends are counted in the end bins.
    """
    q = seen_by(store, q)
    if q.hidden or q.run is None:
        return None
    part, where, params = _scored(q)
    sql, given = part.select(q, None, False, where, params)
    scores = np.array([r["value"] for r in store.query(sql, given)], np.float64)
    if not len(scores):
        return None
    cut = threshold(store, q)
    lo, hi = np.percentile(scores, (TAIL, 100 - TAIL))
    if cut is not None:
        lo, hi = min(lo, cut), max(hi, cut)
    if hi <= lo:
        lo, hi = lo - 0.5, hi + 0.5
    bins = np.histogram(np.clip(scores, lo, hi), BINS, (lo, hi))[0]
    return {"bins": bins.tolist(), "lo": float(lo), "hi": float(hi), "threshold": cut}

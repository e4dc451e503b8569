"""The worklist: order, filters, counts and "next unread", all in SQL, paged by key so that no page costs more than
another.

A page's cursor is its last row's (part, value, id); the SQL of orders and filters is in orders.py. First the keys are
found, along indices alone; only the rows of the page are then read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from core.studio.db.store import Store
from core.studio.review import blind, orders, reading_sessions, tags
from core.studio.review.decisions import DECISIONS

SORTS = ("percentile", "score", "name", "added", "reviewed", "decision", "disagreement", "blind")
PAGE = 100


@dataclass(frozen=True)
class Query:
    """What the reader asked for. `reader` is whose decisions are meant; "" for a filter means all."""

    study: str
    reader: str
    run: str | None = None
    sort: str = "percentile"
    descending: bool = True
    roi: bool = True
    splits: tuple[str, ...] = ("test",)
    flagged: bool | None = None
    decision: str = ""  # unread, read, normal, abnormal, unsure, against
    has_mask: bool | None = None
    mine: bool = False  # assigned to `reader`
    tag: str = ""
    label: str = ""  # normal, abnormal, unknown
    text: str = ""
    hidden: bool = field(default=False)  # set by `seen_by`: blind reading
    session: dict | None = None  # set by `seen_by`: the reader's open session, whose order and decisions are meant

    def __post_init__(self):
        if self.sort not in SORTS:
            raise ValueError(f"the worklist is sorted by one of {', '.join(SORTS)}, not {self.sort!r}")
        if self.sort in ("percentile", "score") and self.run is None:
            object.__setattr__(self, "sort", "name")
            object.__setattr__(self, "descending", False)


def seen_by(store: Store, query: Query) -> Query:
    """The query as it may be asked: in a session in its order; blind, with filters that reveal nothing of the cases."""
    held = reading_sessions.open_session(store, query.reader, query.study) if query.reader else None
    hidden = blind.applies(store, query.study, query.reader)
    if held is None and not hidden:
        return query
    if held is not None:
        query = replace(query, session=held, splits=orders.SPLITS, descending=False, mine=False, label="")
    decision = query.decision if query.decision != "against" else ""
    if not hidden:
        return replace(query, decision=decision)
    return replace(
        query,
        sort="blind",
        descending=False,
        flagged=None,
        has_mask=None,
        tag="",
        label="",
        text="",
        decision=decision,
        hidden=True,
    )


def page(store: Store, q: Query, after: tuple | None = None, limit: int = PAGE, backwards: bool = False) -> dict:
    """{"rows": [...], "cursor": (part, value, id) of the last row or None at the end}. `backwards`: in the
    other direction."""
    q = seen_by(store, q)
    keys = _keys(store, q, after, limit, backwards)
    return {"rows": _dressed(store, q, keys), "cursor": keys[-1] if len(keys) == limit else None}


def _keys(store: Store, q: Query, after: tuple | None, limit: int, backwards: bool, skip: int = 0) -> list[tuple]:
    """Up to `limit` keys (part, value, id) behind `after`, the first `skip` left out."""
    found: list[tuple] = []
    ordered = list(enumerate(orders.parts(q)))
    for number, part in reversed(ordered) if backwards else ordered:
        if after is not None and (number > after[0] if backwards else number < after[0]):
            continue
        where, params = orders.filters(q, part.id)
        here = after if after is not None and number == after[0] else None
        sql, given = part.select(q, here, q.descending != backwards, where, params)
        rows = store.query(f"{sql} LIMIT ? OFFSET ?", [*given, limit - len(found), skip])
        found += [(number, r["value"], r["id"]) for r in rows]
        if len(found) >= limit:
            break
        if skip and not rows:
            count, given = part.count(q, where, params)
            skip -= store.query(count, given)[0]["n"]
        else:
            skip = 0
    return found


def _dressed(store: Store, q: Query, keys: list[tuple]) -> list[dict]:
    """Rows of the keys with what the run and the readers say; without what a blind reader may not know."""
    ids = json.dumps([k[2] for k in keys])
    score, percentile, flagged = (orders.column(q, n) for n in ("score", "percentile", "flagged"))
    known = {
        r["id"]: r
        for r in store.query(
            f"SELECT c.id, c.name, c.sha256, c.tags, r.{score} AS score, r.{percentile} AS percentile, "
            f"r.{flagged} AS flagged, CASE WHEN r.map IS NOT NULL THEN r.created END AS map, v.disagreement "
            "FROM json_each(?) j CROSS JOIN cases c ON c.id = j.value "
            "LEFT JOIN readings r ON r.run = ? AND r.case_id = c.id LEFT JOIN case_votes v ON v.case_id = c.id",
            [ids, q.run],
        )
    }
    said: dict[int, dict[str, str]] = {}
    if q.session is not None:
        of_reader = reading_sessions.decisions_of(store, q.session)
    else:
        of_reader = store.query(
            "SELECT k.case_id, k.stage, k.decision FROM json_each(?) j CROSS JOIN current_reviews k "
            "ON k.case_id = j.value AND k.reader = ?",
            [ids, q.reader],
        )
    for k in of_reader:
        said.setdefault(k["case_id"], {})[k["stage"]] = k["decision"]
    out, people = [], tags.by_people(store, q.study)
    for key in keys:
        if key[2] not in known:
            continue
        r, mine = known[key[2]], said.get(key[2], {})
        row = {
            "id": r["id"],
            "name": r["name"],
            "v": f"{r['sha256'] or ''}"[:10],
            "decision": mine.get("second") or mine.get("first"),
            "first": mine.get("first"),
            "second": mine.get("second"),
            "adjudicated": mine.get("adjudication"),
            "key": list(key),
        }
        if q.hidden:
            row["name"] = "Case"  # aliases.py gives the name that is shown
        if not q.hidden or row["first"]:
            row |= {k: r[k] for k in ("score", "percentile", "flagged", "map")}
            row |= tags.shown(r, people)
            row["disagreement"] = 0.0 if q.hidden else r["disagreement"] or 0.0
        out.append(row)
    return out


def key_of(store: Store, q: Query, case_id: int) -> tuple | None:
    """The cursor at a case, whether or not the filters hold it; None if the order does not reach it."""
    q = seen_by(store, q)
    for number, part in enumerate(orders.parts(replace(q, splits=orders.SPLITS))):
        where = " AND ".join((*part.where, f"{part.id} = ?"))
        row = store.one(
            f"SELECT {part.value or 'NULL'} AS value FROM {part.table} WHERE {where}", [*part.params, case_id]
        )
        if row is not None:
            return (number, row["value"], case_id)
    return None


def neighbour(store: Store, q: Query, case_id: int | None, *, backwards: bool = False, count: int = 1) -> list[int]:
    """Ids of the next (or previous) `count` cases in the query's order, from `case_id` or from the beginning."""
    after = key_of(store, q, case_id) if case_id is not None else None
    return [k[2] for k in _keys(store, seen_by(store, q), after, count, backwards)]


def counts(store: Store, q: Query) -> dict:
    """{"total", "read", "unread", "normal", "abnormal", "unsure"} under the query's filters but the decision's own."""
    q = seen_by(store, q)
    if q.session is not None:
        return _session_counts(store, q)
    where, params = orders.filters(q, "c.id", decision=False)
    splits = "".join(", ?" for _ in q.splits)[2:]
    said = ", ".join(f"total(w.decision = '{d}') AS {d}" for d in DECISIONS)
    row = store.query(
        f"SELECT count(*) AS total, {said} FROM cases c INDEXED BY cases_by_study "
        "LEFT JOIN reader_words w ON w.reader = ? AND w.case_id = c.id "
        f"WHERE {' AND '.join(['c.study = ?', f'c.split IN ({splits})', *where])}",
        [q.reader, q.study, *q.splits, *params],
    )[0]
    return _counted(row)


def _session_counts(store: Store, q: Query) -> dict:
    session = q.session or {}
    where, params = orders.filters(q, "o.case_id", decision=False)
    said = ", ".join(f"total(w = '{d}') AS {d}" for d in DECISIONS)
    rows = f"SELECT {reading_sessions.word('o.case_id')} AS w FROM reading_session_cases o WHERE "
    sql = f"SELECT count(*) AS total, {said} FROM ({rows}{' AND '.join(['o.session = ?', *where])})"
    return _counted(store.query(sql, [q.reader, session["first_review"], session["id"], *params])[0])


def _counted(row: dict) -> dict:
    by = {d: int(row[d]) for d in DECISIONS}
    read = sum(by.values())
    return {"total": row["total"], "read": read, "unread": row["total"] - read, **by}


def position(store: Store, q: Query, number: int) -> tuple | None:
    """The cursor just before the row of that number (0 is the first), for a jump in a long list."""
    if number <= 0:
        return None
    found = _keys(store, seen_by(store, q), None, 1, False, skip=number - 1)
    return found[0] if found else None

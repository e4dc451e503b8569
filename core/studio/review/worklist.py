"""The worklist: order, filters, counts and "next unread", all in SQL, paged by key so that no page costs more than
another.

A page's cursor is its last row's (part, value, id). Orders by score have two parts: cases the run has scored, along
an index, then those it has not.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from core.studio.review import blind
from core.studio.store import Store

SORTS = ("percentile", "score", "name", "added", "reviewed", "disagreement", "blind")
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
    text: str = ""
    hidden: bool = field(default=False)  # set by `seen_by`: blind reading

    def __post_init__(self):
        if self.sort not in SORTS:
            raise ValueError(f"the worklist is sorted by one of {', '.join(SORTS)}, not {self.sort!r}")
        if self.sort in ("percentile", "score") and self.run is None:
            object.__setattr__(self, "sort", "name")
            object.__setattr__(self, "descending", False)


def seen_by(store: Store, query: Query) -> Query:
    """The query as a blind reader may ask it: in an order, and with filters, that tell nothing of the cases."""
    if not blind.applies(store, query.study, query.reader):
        return query
    decision = query.decision if query.decision != "against" else ""
    return replace(
        query,
        sort="blind",
        descending=False,
        flagged=None,
        has_mask=None,
        tag="",
        text="",
        decision=decision,
        hidden=True,
    )


def _filters(q: Query) -> tuple[list[str], list]:
    where, params = ["c.study = ?"], [q.study]
    where.append(f"c.split IN ({', '.join('?' * len(q.splits))})")
    params += q.splits
    if q.flagged is not None:
        where.append(f"coalesce(r.{_column(q, 'flagged')}, 0) = ?")
        params.append(int(q.flagged))
    said = (
        "(SELECT k.decision FROM current_reviews k WHERE k.case_id = c.id AND k.reader = ? "
        "AND k.stage != 'adjudication' ORDER BY k.stage DESC LIMIT 1)"
    )
    if q.decision == "unread":
        where.append(f"{said} IS NULL")
        params.append(q.reader)
    elif q.decision == "read":
        where.append(f"{said} IS NOT NULL")
        params.append(q.reader)
    elif q.decision == "against":
        where.append(f"{said} = CASE WHEN coalesce(r.{_column(q, 'flagged')}, 0) THEN 'normal' ELSE 'abnormal' END")
        params.append(q.reader)
    elif q.decision:
        where.append(f"{said} = ?")
        params += [q.reader, q.decision]
    if q.has_mask is not None:
        where.append(f"{'' if q.has_mask else 'NOT '}EXISTS (SELECT 1 FROM lesion_masks m WHERE m.case_id = c.id)")
    if q.mine:
        where.append("EXISTS (SELECT 1 FROM assignments a WHERE a.reader = ? AND a.case_id = c.id)")
        params.append(q.reader)
    if q.tag:
        where.append("EXISTS (SELECT 1 FROM json_each(c.tags) t WHERE t.value = ?)")
        params.append(q.tag)
    if q.text:
        like = "%" + q.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        where.append("c.name LIKE ? ESCAPE '\\'")
        params.append(like)
    return where, params


def _column(q: Query, name: str) -> str:
    return f"{name}_roi" if q.roi else name


def _parts(q: Query) -> list[tuple[str, list, str]]:
    """(FROM clause, its parameters, ordered column) of each part."""
    left = "cases c LEFT JOIN readings r ON r.run = ? AND r.case_id = c.id"
    if q.sort in ("percentile", "score"):
        column = f"r.{_column(q, 'score')}"  # the percentile rises with the score; the score also breaks its ties
        return [
            # CROSS JOIN fixes the order of the loops: along the index on (run, score), never the other way round.
            (
                "readings r CROSS JOIN cases c ON c.id = r.case_id AND r.run = ? AND " + column + " IS NOT NULL",
                [q.run],
                column,
            ),
            (left + " AND " + column + " IS NOT NULL", [q.run], "NULL"),
        ]
    if q.sort == "reviewed":
        joined = "current_reviews v CROSS JOIN " + left.replace(
            "cases c", "cases c ON c.id = v.case_id AND v.reader = ? AND v.stage = 'first'", 1
        )
        return [(joined, [q.reader, q.run], "v.created")]
    if q.sort == "disagreement":
        joined = "case_votes v CROSS JOIN " + left.replace(
            "cases c", "cases c ON c.id = v.case_id AND v.study = ? AND v.disagreement > 0", 1
        )
        return [(joined, [q.study, q.run], "v.disagreement")]
    column = {"name": "c.name", "added": "c.added", "blind": "c.sha256"}[q.sort]
    return [(left, [q.run], column)]


def page(store: Store, q: Query, after: tuple | None = None, limit: int = PAGE, backwards: bool = False) -> dict:
    """{"rows": [...], "cursor": (part, value, id) of the last row or None at the end}. `backwards` walks the other
    way."""
    q = seen_by(store, q)
    where, values = _filters(q)
    down = q.descending != backwards
    parts = list(enumerate(_parts(q)))
    rows: list[dict] = []
    for number, (source, given, column) in reversed(parts) if backwards else parts:
        if after is not None and (number > after[0] if backwards else number < after[0]):
            continue
        here, params = list(where), [*given, *values]
        if column == "NULL":
            here.append("r.case_id IS NULL")
        sign = "<" if down else ">"
        if after is not None and number == after[0]:
            if column == "NULL":
                here.append(f"c.id {sign} ?")
                params.append(after[2])
            else:
                here.append(f"({column}, c.id) {sign} (?, ?)")
                params += [after[1], after[2]]
        order = "DESC" if down else "ASC"
        ordered = f"c.id {order}" if column == "NULL" else f"{column} {order}, {_tie(q, column)} {order}"
        sql = (
            f"SELECT {number} AS part, {column} AS value, c.id, c.name, c.width, c.height, c.split, c.frame, c.sha256, "
            f"r.{_column(q, 'score')} AS score, r.{_column(q, 'percentile')} AS percentile, "
            f"r.{_column(q, 'flagged')} AS flagged FROM {source} WHERE {' AND '.join(here)} ORDER BY {ordered} LIMIT ?"
        )
        rows += store.query(sql, [*params, limit - len(rows)])
        if len(rows) >= limit:
            break
    last = rows[-1] if len(rows) == limit else None
    return {"rows": _dressed(store, q, rows), "cursor": last and (last["part"], last["value"], last["id"])}


def _tie(q: Query, column: str) -> str:
    # The joined table's own column lets SQLite see that its index already has this order.
    return {"r": "r.case_id", "v": "v.case_id"}.get(column[0], "c.id") if "." in column else "c.id"


def _dressed(store: Store, q: Query, rows: list[dict]) -> list[dict]:
    """Rows with the reader's decision and whether others differ; without what a blind reader may not know."""
    ids = [r["id"] for r in rows]
    said: dict[int, dict[str, str]] = {}
    votes: dict[int, float] = {}
    for start in range(0, len(ids), 500):
        part = ids[start : start + 500]
        marks = ", ".join("?" * len(part))
        for k in store.query(
            f"SELECT case_id, stage, decision FROM current_reviews WHERE reader = ? AND case_id IN ({marks})",
            [q.reader, *part],
        ):
            said.setdefault(k["case_id"], {})[k["stage"]] = k["decision"]
        for v in store.query(f"SELECT case_id, disagreement FROM case_votes WHERE case_id IN ({marks})", part):
            votes[v["case_id"]] = v["disagreement"]
    out = []
    for r in rows:
        mine = said.get(r["id"], {})
        row = {
            "id": r["id"],
            "name": r["name"],
            "v": r["sha256"][:10],
            "decision": mine.get("second") or mine.get("first"),
            "first": mine.get("first"),
            "second": mine.get("second"),
            "adjudicated": mine.get("adjudication"),
            "key": [r["part"], r["value"], r["id"]],
        }
        if q.hidden:
            row["name"] = f"Case {r['id']}"
        if not q.hidden or row["first"]:
            shown = ("score", "percentile", "flagged")
            row |= {k: r[k] for k in shown} | {"disagreement": 0.0 if q.hidden else votes.get(r["id"], 0.0)}
        out.append(row)
    return out


def key_of(store: Store, q: Query, case_id: int) -> tuple | None:
    """The cursor at a case, whether or not the filters hold it; None if the order does not reach it."""
    q = seen_by(store, q)
    for number, (source, given, column) in enumerate(_parts(q)):
        extra = " AND r.case_id IS NULL" if column == "NULL" else ""
        row = store.one(f"SELECT {column} AS value FROM {source} WHERE c.id = ?{extra}", [*given, case_id])
        if row is not None:
            return (number, row["value"], case_id)
    return None


def neighbour(store: Store, q: Query, case_id: int | None, *, backwards: bool = False, count: int = 1) -> list[int]:
    """Ids of the next (or previous) `count` cases in the query's order, from `case_id` or from the beginning."""
    after = key_of(store, q, case_id) if case_id is not None else None
    return [r["id"] for r in page(store, q, after, count, backwards)["rows"]]


def counts(store: Store, q: Query) -> dict:
    """{"total", "read", "unread", "normal", "abnormal", "unsure"} under the query's filters but the decision's own."""
    q = replace(seen_by(store, q), decision="")
    where, values = _filters(q)
    needs_run = q.flagged is not None
    source = "cases c LEFT JOIN readings r ON r.run = ? AND r.case_id = c.id" if needs_run else "cases c"
    params = [q.run, *values] if needs_run else values
    total = store.one(f"SELECT count(*) AS n FROM {source} WHERE {' AND '.join(where)}", params)["n"]
    last = (
        "(SELECT case_id, decision, max(stage) FROM current_reviews "
        "WHERE reader = ? AND stage != 'adjudication' GROUP BY case_id)"
    )
    rows = store.query(
        f"SELECT k.decision, count(*) AS n FROM {last} k CROSS JOIN "
        f"{source.replace('cases c', 'cases c ON c.id = k.case_id', 1)} "
        f"WHERE {' AND '.join(where)} GROUP BY k.decision",
        [q.reader, *params],
    )
    by = {d: 0 for d in ("normal", "abnormal", "unsure")} | {r["decision"]: r["n"] for r in rows}
    read = sum(by.values())
    return {"total": total, "read": read, "unread": total - read, **by}


def position(store: Store, q: Query, number: int) -> tuple | None:
    """The cursor just before the row of that number (0 is the first), for a jump in a long list."""
    if number <= 0:
        return None
    rows = page(store, q, None, number)["rows"] if number <= PAGE else _jump(store, seen_by(store, q), number)
    return tuple(rows[-1]["key"]) if rows else None


def _jump(store: Store, q: Query, number: int) -> list[dict]:
    where, values = _filters(q)
    skip = number - 1
    for part, (source, given, column) in enumerate(_parts(q)):
        here = [*where, "r.case_id IS NULL"] if column == "NULL" else where
        order = "DESC" if q.descending else "ASC"
        ordered = f"c.id {order}" if column == "NULL" else f"{column} {order}, {_tie(q, column)} {order}"
        body = f"FROM {source} WHERE {' AND '.join(here)}"
        row = store.one(
            f"SELECT {column} AS value, c.id {body} ORDER BY {ordered} LIMIT 1 OFFSET ?", [*given, *values, skip]
        )
        if row is not None:
            return [{"key": [part, row["value"], row["id"]]}]
        skip -= store.one(f"SELECT count(*) AS n {body}", [*given, *values])["n"]
    return []

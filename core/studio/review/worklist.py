"""The worklist of a reader: sort orders, filters, pages, counts and the distribution of scores, all computed in SQL.

Pages use keyset pagination, so that every page takes the same time. A list is read by one or more index scans: a list
by score, for example, has a scan of the scored cases and then one of the other cases. A cursor is the key (part, value,
id) of a row: the number of the scan, the value by which the scan sorts, and the case's id. The keys of a page and all
filters are answered by indexes alone, so that skipping 100,000 cases reads no row of a case. All scans are limited to
the study of the request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.studio.db.store import Row
from core.studio.review import cases
from core.studio.review.context import RequestContext
from core.studio.review.decisions import DECISIONS
from core.studio.review.sessions import last_decision_sql

SORTS = ("percentile", "score", "name", "added", "reviewed", "decision", "disagreement", "teaches")
SPLITS = ("test", "holdout", "train")
DECISION_FILTERS = ("", "unread", "read", *DECISIONS, "against", "differs")  # filters by the reader's decision
LABELS = ("", "normal", "abnormal", "unknown")
PAGE = 100
BINS = 64
TAIL = 0.5  # per cent of the scores at each end that are counted in the first and the last bin
_BY_URGENCY = ("abnormal", "unsure", "normal")
_ASKED: dict[str, tuple[str, dict[str, Any]]] = {  # page parameter: (field of Query, {text: value of the field})
    "split": ("splits", {"": ("test",), "test": ("test",), "holdout": ("holdout",), "all": SPLITS}),
    "desc": ("descending", {"": True, "1": True, "0": False}),
    "flagged": ("flagged", {"": None, "1": True, "0": False}),
    "has_mask": ("has_mask", {"": None, "1": True, "0": False}),
    "assigned": ("mine", {"": False, "1": True, "0": False}),
}


@dataclass(frozen=True)
class Query:
    """Sort order and filters of a worklist; a filter of "" or None matches all cases.

    sort: Sort key, one of SORTS; "teaches" ranks cases by how much the run would learn from their annotation.
    flagged: Whether the run flags the case.
    decision: The reader's decision (one of DECISIONS), "unread", "read", "against" for a decision that contradicts the
        run's flag, or "differs" for a decision that differs from another reader's decision.
    mine: Whether to list only cases that are assigned to the reader.
    label: Label of the case in the import.
    text: Part of the case's name.

    Raises ValueError if a value is not allowed.
    """

    sort: str = "percentile"
    descending: bool = True
    splits: tuple[str, ...] = ("test",)
    flagged: bool | None = None
    decision: str = ""
    has_mask: bool | None = None
    mine: bool = False
    tag: str = ""
    label: str = ""
    text: str = ""

    def __post_init__(self) -> None:
        for name, words in (("sort", SORTS), ("decision", DECISION_FILTERS), ("label", LABELS)):
            if getattr(self, name) not in words:
                allowed = ", ".join(w for w in words if w)
                role = "sorted by" if name == "sort" else f"filtered by {name}:"
                raise ValueError(f"the worklist is {role} one of {allowed}, not {getattr(self, name)!r}")
        if not isinstance(self.splits, tuple) or not set(self.splits) <= set(SPLITS):
            raise ValueError(f"the worklist's splits are a tuple of {', '.join(SPLITS)}, not {self.splits!r}")
        for name in ("flagged", "has_mask"):
            if getattr(self, name) not in (None, True, False):
                raise ValueError(f"the worklist's {name} is True, False or None, not {getattr(self, name)!r}")

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Query:
        """Builds a query from URL parameters or the field `list` of a request body; unknown parameters are ignored.

        Raises ValueError if a value is not allowed.
        """
        fields: dict[str, Any] = {}
        for name in ("sort", "decision", "tag", "label", "text"):
            value = values.get(name)
            if value is not None and not isinstance(value, str):
                raise ValueError(f"the list's {name} is text, not {value!r}")
            if value:
                fields[name] = value
        for name, (field, words) in _ASKED.items():
            value = values.get(name)
            if value is not None and not isinstance(value, str | int):
                raise ValueError(f"the list's {name} is text or a number, not {value!r}")
            text = "" if value is None else str(int(value)) if isinstance(value, bool) else str(value)
            if text not in words:
                raise ValueError(f"the list's {name} is one of {', '.join(w for w in words if w)}, not {text!r}")
            fields[field] = words[text]
        return cls(**fields)


@dataclass(frozen=True)
class _Part:
    """One scan of `table` along `index`: the rows that match `where`, sorted by `value` (if any), then by `id`.

    join: SQL that joins the cases of the study and splits ("" if the table is `cases`), and the parameters of that SQL.
    """

    table: str
    index: str
    where: tuple[str, ...]
    params: tuple
    id: str
    value: str | None = None
    join: tuple[str, tuple] = ("", ())

    def select(self, after: tuple | None, down: bool, where: list[str], params: list) -> tuple[str, list]:
        """Returns SQL, and its parameters, for (value, id) of the rows after a cursor, descending if `down`."""
        order, sign = ("DESC", "<") if down else ("ASC", ">")
        value = self.value or "NULL"
        terms, values = [*self.where, *where], [*self.params, *params]
        if after is not None:
            terms.append(f"({value}, {self.id}) {sign} (?, ?)" if self.value else f"{self.id} {sign} ?")
            values += list(after[1:]) if self.value else [after[2]]
        by = f"{value} {order}, {self.id} {order}" if self.value else f"{self.id} {order}"
        return (
            f"SELECT {value} AS value, {self.id} AS id FROM {self._source} WHERE {' AND '.join(terms)} ORDER BY {by}",
            [*self.join[1], *values],
        )

    def count(self, where: list[str], params: list) -> tuple[str, list]:
        """Returns SQL that counts the rows, and its parameters."""
        terms = " AND ".join([*self.where, *where])
        return f"SELECT count(*) AS n FROM {self._source} WHERE {terms}", [*self.join[1], *self.params, *params]

    @property
    def _source(self) -> str:
        # CROSS JOIN fixes the order of the loops: the index is always the outer loop.
        return f"{self.table} INDEXED BY {self.index}{self.join[0]}"


class Worklist:
    """One reader's list of cases, in the requested order and with the filters that the reader may use.

    In a reading session, the list consists of the session's cases in their reading order. Otherwise, a blind reader's
    list has a random order. A blind reader's list also ignores filters that would reveal something about a case.
    """

    def __init__(self, context: RequestContext, query: Query):
        self.context, self.store, self.run = context, context.store, context.run
        self.session = context.session
        self.hidden = context.blinded
        if query.sort == "teaches" and not self._teaches():
            query = replace(query, sort="percentile")  # the run has not been asked yet what it would learn most from
        if query.sort in ("percentile", "score") and self.run is None:
            query = replace(query, sort="name", descending=False)
        if self.session is not None:
            query = replace(query, splits=SPLITS, descending=False, mine=False, label="")
        if (self.session is not None or self.hidden) and query.decision in ("against", "differs"):
            query = replace(query, decision="")
        if self.hidden:
            query = replace(query, descending=False, flagged=None, has_mask=None, tag="", label="", text="")
        self.query = query

    @property
    def covered(self) -> bool:
        """Whether labels are hidden from the reader, which is the case in blind reading and in reading sessions."""
        return self.hidden or self.session is not None

    def _teaches(self) -> bool:
        query = "SELECT 1 AS one FROM next_marks INDEXED BY next_marks_by_value WHERE run = ? LIMIT 1"
        return self.run is not None and bool(self.store.query(query, [self.run]))

    def _joined(
        self, table: str, index: str, where: str, params: tuple, value: str | None, splits: tuple[str, ...]
    ) -> _Part:
        """Returns a scan of a table whose rows refer to cases. table: Name of the table and its one-letter alias."""
        number, marks = f"{table[-1]}.case_id", ", ".join("?" * len(splits))
        on = f"c.study = ? AND c.id = {number} AND c.split IN ({marks})"
        joined = f" CROSS JOIN cases c INDEXED BY cases_by_id ON {on}", (self.context.study, *splits)
        return _Part(table, index, (where,), params, number, value, joined)

    def _cases(self, splits: tuple[str, ...], index: str, value: str | None, *where: str, params: tuple = ()) -> _Part:
        conditions, values = ["c.study = ?", *where], [self.context.study, *params]
        if set(splits) != set(SPLITS):
            conditions.insert(1, f"c.split IN ({', '.join('?' * len(splits))})")
            values[1:1] = splits
        return _Part("cases c", index, tuple(conditions), tuple(values), "c.id", value)

    def _by_score(self, splits: tuple[str, ...]) -> _Part:
        where = "r.run = ? AND r.score_roi IS NOT NULL"
        # The percentile increases with the score, and the score also breaks ties between equal percentiles.
        return self._joined("readings r", "readings_by_score_roi", where, (self.run,), "r.score_roi", splits)

    def parts(self, splits: tuple[str, ...] | None = None) -> list[_Part]:
        """Returns the index scans that together yield the list in order. splits: Defaults to the query's splits."""
        q, study, reader = self.query, self.context.study, self.context.reader
        splits = q.splits if splits is None else splits
        if self.session is not None:
            table, index = "reading_session_cases o", "reading_session_cases_by_position"
            return [self._joined(table, index, "o.session = ?", (self.session["id"],), "o.position", splits)]
        if self.hidden:
            order = self.context.names.order or {}
            table, index = "neutral_cases o", "neutral_cases_by_position"
            return [self._joined(table, index, "o.list = ?", (order["id"],), "o.position", splits)]
        if q.sort in ("percentile", "score"):
            unscored = (
                "NOT EXISTS (SELECT 1 FROM readings s INDEXED BY readings_scored_roi "
                "WHERE s.run = ? AND s.case_id = c.id AND s.score_roi IS NOT NULL)"
            )
            return [self._by_score(splits), self._cases(splits, "cases_by_id", None, unscored, params=(self.run,))]
        if q.sort == "teaches":  # cases without a stored rank come last
            taught = "NOT EXISTS (SELECT 1 FROM next_marks t WHERE t.run = ? AND t.case_id = c.id)"
            most = self._joined("next_marks n", "next_marks_by_value", "n.run = ?", (self.run,), "n.value", splits)
            return [most, self._cases(splits, "cases_by_id", None, taught, params=(self.run,))]
        if q.sort == "reviewed":
            where = "w.reader = ? AND w.study = ? AND w.created IS NOT NULL"
            table, index = "reader_words w", "reader_words_by_time"
            return [self._joined(table, index, where, (reader, study), "w.created", splits)]
        if q.sort == "decision":  # unread cases come last in both directions
            where = "w.reader = ? AND w.study = ? AND w.decision = ?"
            table, index = "reader_words w", "reader_words_by_decision"
            unread = "NOT EXISTS (SELECT 1 FROM reader_words u WHERE u.reader = ? AND u.case_id = c.id)"
            read = [
                self._joined(table, index, where, (reader, study, decision), None, splits)
                for decision in (_BY_URGENCY if q.descending else _BY_URGENCY[::-1])
            ]
            return [*read, self._cases(splits, "cases_by_id", None, unread, params=(reader,))]
        if q.sort == "disagreement":
            where = "v.study = ? AND v.disagreement > 0"
            table, index = "case_votes v", "case_votes_by_disagreement"
            return [self._joined(table, index, where, (study,), "v.disagreement", splits)]
        return [self._cases(splits, f"cases_by_{q.sort}", f"c.{q.sort}")]  # by name or added

    def filters(self, number: str, decision: bool = True) -> tuple[list[str], list]:
        """Returns the filters as SQL conditions, and the parameters of the conditions.

        number: SQL expression for the case's id.
        decision: Whether to include the filter on the reader's decision.
        """
        q, reader = self.query, self.context.reader
        where: list[str] = []
        params: list = []

        def add(condition: str, *values: Any) -> None:
            where.append(condition)
            params.extend(values)

        flagged = (
            "EXISTS (SELECT 1 FROM readings f INDEXED BY readings_flagged_roi "
            f"WHERE f.run = ? AND f.case_id = {number} AND f.flagged_roi = 1)"
        )
        own_decision = f"SELECT 1 FROM reader_words k WHERE k.reader = ? AND k.case_id = {number}"
        if q.label:
            add(f"EXISTS (SELECT 1 FROM cases l WHERE l.id = {number} AND l.label = ?)", q.label)
        if q.tag:
            add(f"EXISTS (SELECT 1 FROM case_tags t WHERE t.tag = ? AND t.case_id = {number})", q.tag)
        if q.mine:
            add(f"EXISTS (SELECT 1 FROM assignments a WHERE a.reader = ? AND a.case_id = {number})", reader)
        if q.has_mask is not None:
            have = f"EXISTS (SELECT 1 FROM lesion_masks m WHERE m.case_id = {number})"
            add(have if q.has_mask else f"NOT {have}")
        if q.flagged is not None:
            add(flagged if q.flagged else f"NOT {flagged}", self.run)
        chosen = q.decision if decision else ""
        if chosen and self.session is not None:
            last_word, first_review = last_decision_sql(number), self.session["first_review"]
            tests = {"unread": f"{last_word} IS NULL", "read": f"{last_word} IS NOT NULL"}
            values = [] if chosen in tests else [chosen]
            add(tests.get(chosen, f"{last_word} = ?"), reader, first_review, *values)
        elif chosen == "unread":
            add(f"NOT EXISTS ({own_decision})", reader)
        elif chosen == "read":
            add(f"EXISTS ({own_decision})", reader)
        elif chosen == "against":
            opposite = f"k.decision = CASE WHEN {flagged} THEN 'normal' ELSE 'abnormal' END"
            add(f"EXISTS ({own_decision} AND {opposite})", reader, self.run)
        elif chosen == "differs":
            other = f"SELECT 1 FROM reader_words o WHERE o.case_id = {number} AND o.reader != ?"
            add(f"EXISTS ({own_decision} AND EXISTS ({other} AND o.decision != k.decision))", reader, reader)
        elif chosen:
            add(f"EXISTS ({own_decision} AND k.decision = ?)", reader, chosen)
        if q.text:
            like = "%" + q.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
            if where:  # the other filters leave few cases, whose names are checked one by one
                add(f"EXISTS (SELECT 1 FROM cases n WHERE n.id = {number} AND n.name LIKE ? ESCAPE '\\')", like)
            else:  # the matching names are searched once along their index
                source = "SELECT n.id FROM cases n INDEXED BY cases_by_name"
                # The + keeps SQLite from using this index for the order.
                matching = f"{source} WHERE n.study = ? AND n.name LIKE ? ESCAPE '\\'"
                add(f"+{number} IN ({matching})", self.context.study, like)
        return where, params

    def page(self, after: tuple | None = None, limit: int = PAGE, backwards: bool = False) -> dict:
        """Reads up to `limit` rows after the cursor `after` or, if `backwards`, the rows before it in reverse order.

        Returns {"rows", "cursor": cursor of the last row, or None if there are fewer than `limit` rows}.
        """
        keys = self._keys(after, limit, backwards)
        return {"rows": self._dressed(keys), "cursor": keys[-1] if len(keys) == limit else None}

    def _keys(self, after: tuple | None, limit: int, backwards: bool, skip: int = 0) -> list[tuple]:
        """Returns up to `limit` keys (part, value, id) after the cursor `after`, without the first `skip` keys."""
        keys: list[tuple] = []
        ordered = list(enumerate(self.parts()))
        for number, segment in reversed(ordered) if backwards else ordered:
            if after is not None and (number > after[0] if backwards else number < after[0]):
                continue
            where, params = self.filters(segment.id)
            start = after if after is not None and number == after[0] else None
            sql, values = segment.select(start, self.query.descending != backwards, where, params)
            rows = self.store.query(f"{sql} LIMIT ? OFFSET ?", [*values, limit - len(keys), skip])
            keys += [(number, r["value"], r["id"]) for r in rows]
            if len(keys) >= limit:
                break
            if skip and not rows:
                count, values = segment.count(where, params)
                skip -= self.store.first(count, values)["n"]
            else:
                skip = 0
        return keys

    def _dressed(self, keys: list[tuple]) -> list[dict]:
        """Returns the rows of the keys with the results and decisions that the reader may see."""
        ids = json.dumps([k[2] for k in keys])
        row_of = {
            r["id"]: r
            for r in self.store.query(
                "SELECT c.id, c.name, c.added, c.sha256, c.tags, r.score_roi AS score, r.percentile_roi AS percentile, "
                "r.flagged_roi AS flagged, CASE WHEN r.map IS NOT NULL THEN r.created END AS map, v.disagreement, "
                "(SELECT n.why FROM next_marks n WHERE n.run = r.run AND n.case_id = c.id) AS why "
                "FROM json_each(?) j CROSS JOIN cases c ON c.id = j.value AND c.study = ? "
                "LEFT JOIN readings r ON r.run = ? AND r.case_id = c.id LEFT JOIN case_votes v ON v.case_id = c.id",
                [ids, self.context.study, self.run],
            )
        }
        decisions: dict[int, dict[str, str]] = {}
        for k in self._decisions(ids):
            decisions.setdefault(k["case_id"], {})[k["stage"]] = k["decision"]
        out = []
        for key in keys:
            r, mine = row_of[key[2]], decisions.get(key[2], {})
            row = {
                "id": r["id"],
                "name": cases.name_shown(r),
                "v": f"{r['sha256'] or ''}"[:10],
                "decision": mine.get("second") or mine.get("first"),
                "first": mine.get("first"),
                "second": mine.get("second"),
                "adjudicated": mine.get("adjudication"),
                "key": list(key),
            }
            if self.hidden:
                row["name"] = "Case"  # sessions.py sets the displayed name
            if not self.hidden or (row["first"] and self.context.trial is None):
                row |= {k: r[k] for k in ("score", "percentile", "flagged", "map")}
                row |= cases.tags_shown(r, self.context.people_tags)
                row["disagreement"] = 0.0 if self.hidden else r["disagreement"] or 0.0
                if self.query.sort == "teaches" and not self.hidden:  # the rank would reveal something of hidden cases
                    row["why"] = r["why"] or ""
            out.append(row)
        return out

    def _decisions(self, ids: str) -> list[Row]:
        """Returns the reader's current decisions on cases. ids: JSON list of the cases' ids."""
        if self.session is not None:
            return self.store.query(
                "SELECT r.case_id, r.stage, r.decision FROM json_each(?) j CROSS JOIN reviews r "
                "ON r.case_id = j.value AND r.reader = ? AND r.active = 1 AND r.stage != 'adjudication' AND r.id > ? "
                "ORDER BY r.id",
                [ids, self.context.reader, self.session["first_review"]],
            )
        return self.store.query(
            "SELECT k.case_id, k.stage, k.decision FROM json_each(?) j CROSS JOIN current_reviews k "
            "ON k.case_id = j.value AND k.reader = ?",
            [ids, self.context.reader],
        )

    def key_of(self, case_id: int) -> tuple | None:
        """Returns the cursor of a case, or None if the list's order does not include the case. Filters are ignored."""
        scans, values = [], []
        for number, segment in enumerate(self.parts(SPLITS)):
            source, (joined, params) = segment.table, segment.join
            where = " AND ".join((*segment.where, f"{segment.id} = ?"))
            scans.append(
                f"SELECT {number} AS part, {segment.value or 'NULL'} AS value FROM {source}{joined} WHERE {where}"
            )
            values += [*params, *segment.params, case_id]
        rows = self.store.query(" UNION ALL ".join(scans), values)
        if not rows:
            return None
        first = min(rows, key=lambda row: row["part"])
        return (first["part"], first["value"], case_id)

    def neighbour(self, case_id: int | None, *, backwards: bool = False, count: int = 1) -> list[int]:
        """Returns the ids of up to `count` cases after a case or, if `backwards`, before it in reverse order.

        If `case_id` is None, the list is read from its start or, if `backwards`, from its end.
        """
        after = self.key_of(case_id) if case_id is not None else None
        return [k[2] for k in self._keys(after, count, backwards)]

    def position(self, number: int) -> tuple | None:
        """Returns the cursor after which row `number` (from 0) follows, or None if `number` is 0 or beyond the end."""
        if number <= 0:
            return None
        keys = self._keys(None, 1, False, skip=number - 1)
        return keys[0] if keys else None

    def with_decision(self, decision: str) -> Worklist:
        """Returns the same list with `decision` as the filter on the reader's decision."""
        return Worklist(self.context, replace(self.query, decision=decision))

    def counts(self) -> dict:
        """Counts the list's cases by the reader's decision. The list's filter on the decision is ignored.

        Returns {"total", "read", "unread", "normal", "abnormal", "unsure"}.
        """
        q, context = self.query, self.context
        if self.session is not None:
            where, params = self.filters("o.case_id", decision=False)
            totals = ", ".join(f"total(w = '{d}') AS {d}" for d in DECISIONS)
            rows = f"SELECT {last_decision_sql('o.case_id')} AS w FROM reading_session_cases o WHERE "
            sql = f"SELECT count(*) AS total, {totals} FROM ({rows}{' AND '.join(['o.session = ?', *where])})"
            session = self.session
            values = [context.reader, session["first_review"], session["id"], *params]
        else:
            where, params = self.filters("c.id", decision=False)
            splits = ", ".join("?" * len(q.splits))
            totals = ", ".join(f"total(w.decision = '{d}') AS {d}" for d in DECISIONS)
            sql = (
                f"SELECT count(*) AS total, {totals} FROM cases c INDEXED BY cases_by_study "
                "LEFT JOIN reader_words w ON w.reader = ? AND w.case_id = c.id "
                f"WHERE {' AND '.join(['c.study = ?', f'c.split IN ({splits})', *where])}"
            )
            values = [context.reader, context.study, *q.splits, *params]
        row = self.store.first(sql, values)
        by_decision = {d: int(row[d]) for d in DECISIONS}
        read = sum(by_decision.values())
        return {"total": row["total"], "read": read, "unread": row["total"] - read, **by_decision}

    def total(self) -> int:
        """Returns the number of cases in the list."""
        total = 0
        for segment in self.parts():
            sql, values = segment.count(*self.filters(segment.id))
            total += self.store.first(sql, values)["n"]
        return total

    def place(self, case_id: int) -> int | None:
        """Returns how many cases precede a case in the list, or None if the list's order does not include the case."""
        key = self.key_of(case_id)
        if key is None:
            return None
        before = 0
        for number, segment in enumerate(self.parts()[: key[0] + 1]):
            where, params = self.filters(segment.id)
            start = key if number == key[0] else None
            before += self._count(*segment.select(start, not self.query.descending, where, params))
        return before

    def _count(self, statement: str, params: list) -> int:
        return self.store.first(f"SELECT count(*) AS n FROM ({statement})", params)["n"]

    def _scored(self) -> tuple[_Part, list[str], list]:
        """Returns a scan of the list's cases by score, with the conditions and parameters of the filters."""
        segment = self._by_score(self.query.splits)
        where, params = self.filters(segment.id)
        if self.session is not None:
            member = "SELECT 1 FROM reading_session_cases o WHERE o.session = ? AND o.case_id = "
            where, params = [*where, f"EXISTS ({member}{segment.id})"], [*params, self.session["id"]]
        return segment, where, params

    def nearest(self, score: float) -> int | None:
        """Returns the id of the listed case whose score is nearest to `score`, or None if the reader sees no scores."""
        if self.hidden or self.run is None:
            return None
        segment, where, params = self._scored()
        sides: list[tuple[float, int]] = []
        for down, sign in ((False, ">="), (True, "<=")):
            sql, values = segment.select(None, down, [*where, f"{segment.value} {sign} ?"], [*params, score])
            sides += [(abs(r["value"] - score), r["id"]) for r in self.store.query(f"{sql} LIMIT 1", values)]
        return min(sides)[1] if sides else None

    def threshold(self) -> float | None:
        """Computes the score halfway between the lowest flagged and the highest unflagged score of the run.

        Returns None if the run has no flagged or no unflagged cases.
        """
        index = "readings INDEXED BY readings_flagged_roi"
        count = self._count(f"SELECT 1 FROM {index} WHERE run = ? AND flagged_roi = 1", [self.run])
        if not count:
            return None
        rows = self.store.query(
            "SELECT score_roi AS score FROM readings INDEXED BY readings_by_score_roi WHERE run = ? "
            "AND score_roi IS NOT NULL ORDER BY score_roi DESC LIMIT 2 OFFSET ?",
            [self.run, count - 1],
        )
        return (rows[0]["score"] + rows[1]["score"]) / 2 if len(rows) == 2 else None

    def distribution(self) -> dict | None:
        """Computes a histogram of the list's scores.

        Returns {"bins": number of cases per bin, "lo": lowest edge, "hi": highest edge, "threshold"}, or None if the
        reader sees no scores. Scores outside the edges are counted in the first or last bin.
        """
        if self.hidden or self.run is None:
            return None
        segment, where, params = self._scored()
        sql, values = segment.select(None, False, where, params)
        scores = np.array([r["value"] for r in self.store.query(sql, values)], np.float64)
        if not len(scores):
            return None
        cut = self.threshold()
        lo, hi = np.percentile(scores, (TAIL, 100 - TAIL))
        if cut is not None:
            lo, hi = min(lo, cut), max(hi, cut)
        if hi <= lo:
            lo, hi = lo - 0.5, hi + 0.5
        bins = np.histogram(np.clip(scores, lo, hi), BINS, (lo, hi))[0]
        return {"bins": bins.tolist(), "lo": float(lo), "hi": float(hi), "threshold": cut}

"""The worklist's SQL: the orders it can be read in, each along one index, and the filters, each a look into another.

An order by score has two parts: cases the run has scored, then those it has not. Every filter is a question about a
case's number, answered by an index alone, so that a scan past 100,000 cases never opens a case's row or a reading's.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.studio.review.reading_sessions import word

SPLITS = ("test", "holdout", "train")
BY_CASE = {"name": "name", "added": "added", "blind": "sha256"}  # sort: column of the cases
BY_URGENCY = ("abnormal", "unsure", "normal")


@dataclass(frozen=True)
class Part:
    """One scan along `index` of `table`: rows where `where` holds, by `value` (None: by number alone), then `id`."""

    table: str
    index: str
    where: tuple[str, ...]
    params: tuple
    id: str
    value: str | None = None

    @property
    def of_cases(self) -> bool:
        return self.table.startswith("cases ")

    def select(self, q, after: tuple | None, down: bool, where: list[str], params: list) -> tuple[str, list]:
        """Statement of (value, id) in order, from behind the key `after` = (part, value, id); its parameters."""
        order, sign = ("DESC", "<") if down else ("ASC", ">")
        value = self.value or "NULL"
        here, given = [*self.where, *where], [*self.params, *params]
        if after is not None:
            here.append(f"({value}, {self.id}) {sign} (?, ?)" if self.value else f"{self.id} {sign} ?")
            given += list(after[1:]) if self.value else [after[2]]
        by = f"{value} {order}, {self.id} {order}" if self.value else f"{self.id} {order}"
        joined, first = self._splits(q)
        # CROSS JOIN fixes the order of the loops: along the index, never the other way round.
        source = f"{self.table} INDEXED BY {self.index}{joined}"
        return f"SELECT {value} AS value, {self.id} AS id FROM {source} WHERE {' AND '.join(here)} ORDER BY {by}", [
            *first,
            *given,
        ]

    def count(self, q, where: list[str], params: list) -> tuple[str, list]:
        """Statement of the number of rows."""
        joined, first = self._splits(q)
        source = f"{self.table} INDEXED BY {self.index}{joined}"
        return f"SELECT count(*) AS n FROM {source} WHERE {' AND '.join([*self.where, *where])}", [
            *first,
            *self.params,
            *params,
        ]

    def _splits(self, q) -> tuple[str, list]:
        if self.of_cases or set(q.splits) == set(SPLITS):
            return "", []
        marks = ", ".join("?" * len(q.splits))
        return f" CROSS JOIN cases c ON c.id = {self.id} AND c.split IN ({marks})", list(q.splits)


def column(q, name: str) -> str:
    return f"{name}_roi" if q.roi else name


def _cases(q, index: str, value: str | None, *where: str, params: tuple = ()) -> Part:
    here, given = ["c.study = ?", *where], [q.study, *params]
    if set(q.splits) != set(SPLITS):
        here.insert(1, f"c.split IN ({', '.join('?' * len(q.splits))})")
        given[1:1] = q.splits
    return Part("cases c", index, tuple(here), tuple(given), "c.id", value)


def parts(q) -> list[Part]:
    """The scans that make up the order of a Query."""
    if q.session is not None:
        here = ("o.session = ?",)
        index = "reading_session_cases_by_position"
        return [Part("reading_session_cases o", index, here, (q.session["id"],), "o.case_id", "o.position")]
    if q.sort in ("percentile", "score"):
        score = column(q, "score")  # the percentile rises with the score; the score also breaks its ties
        unscored = (
            f"NOT EXISTS (SELECT 1 FROM readings s INDEXED BY readings_scored{'_roi' * q.roi} "
            f"WHERE s.run = ? AND s.case_id = c.id AND s.{score} IS NOT NULL)"
        )
        return [
            Part(
                "readings r",
                f"readings_by_{score}",
                ("r.run = ?", f"r.{score} IS NOT NULL"),
                (q.run,),
                "r.case_id",
                f"r.{score}",
            ),
            _cases(q, "cases_by_id", None, unscored, params=(q.run,)),
        ]
    if q.sort == "reviewed":
        said = ("w.reader = ?", "w.study = ?", "w.created IS NOT NULL")
        return [Part("reader_words w", "reader_words_by_time", said, (q.reader, q.study), "w.case_id", "w.created")]
    if q.sort == "decision":  # unread cases come last, either way
        said = ("w.reader = ?", "w.study = ?", "w.decision = ?")
        unread = "NOT EXISTS (SELECT 1 FROM reader_words u WHERE u.reader = ? AND u.case_id = c.id)"
        read = [
            Part("reader_words w", "reader_words_by_decision", said, (q.reader, q.study, word), "w.case_id")
            for word in (BY_URGENCY if q.descending else BY_URGENCY[::-1])
        ]
        return [*read, _cases(q, "cases_by_id", None, unread, params=(q.reader,))]
    if q.sort == "disagreement":
        differ = ("v.study = ?", "v.disagreement > 0")
        return [Part("case_votes v", "case_votes_by_disagreement", differ, (q.study,), "v.case_id", "v.disagreement")]
    name = BY_CASE[q.sort]
    return [_cases(q, f"cases_by_{name}", f"c.{name}")]


def filters(q, number: str, decision: bool = True) -> tuple[list[str], list]:
    """Conditions on a case, and their parameters; `number` is the SQL for the case's id.

    decision: with the one on what the reader said.
    """
    where, params = [], []
    flagged = (
        f"EXISTS (SELECT 1 FROM readings f INDEXED BY readings_flagged{'_roi' * q.roi} "
        f"WHERE f.run = ? AND f.case_id = {number} AND f.{column(q, 'flagged')} = 1)"
    )
    known = f"SELECT 1 FROM reader_words k WHERE k.reader = ? AND k.case_id = {number}"
    if q.label:
        where.append(f"EXISTS (SELECT 1 FROM cases l WHERE l.id = {number} AND l.label = ?)")
        params.append(q.label)
    if q.tag:
        where.append(f"EXISTS (SELECT 1 FROM case_tags t WHERE t.tag = ? AND t.case_id = {number})")
        params.append(q.tag)
    if q.mine:
        where.append(f"EXISTS (SELECT 1 FROM assignments a WHERE a.reader = ? AND a.case_id = {number})")
        params.append(q.reader)
    if q.has_mask is not None:
        have = f"EXISTS (SELECT 1 FROM lesion_masks m WHERE m.case_id = {number})"
        where.append(have if q.has_mask else f"NOT {have}")
    if q.flagged is not None:
        where.append(flagged if q.flagged else f"NOT {flagged}")
        params.append(q.run)
    if decision and q.decision and q.session is not None:
        where.append(
            {"unread": f"{word(number)} IS NULL", "read": f"{word(number)} IS NOT NULL"}.get(
                q.decision, f"{word(number)} = ?"
            )
        )
        params += [q.reader, q.session["first_review"]]
        params += [] if q.decision in ("unread", "read") else [q.decision]
    elif decision and q.decision == "unread":
        where.append(f"NOT EXISTS ({known})")
        params.append(q.reader)
    elif decision and q.decision == "read":
        where.append(f"EXISTS ({known})")
        params.append(q.reader)
    elif decision and q.decision == "against":
        where.append(f"EXISTS ({known} AND k.decision = CASE WHEN {flagged} THEN 'normal' ELSE 'abnormal' END)")
        params += [q.reader, q.run]
    elif decision and q.decision:
        where.append(f"EXISTS ({known} AND k.decision = ?)")
        params += [q.reader, q.decision]
    if q.text:
        like = "%" + q.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        if where:  # few cases are left: each is looked at
            where.append(f"EXISTS (SELECT 1 FROM cases n WHERE n.id = {number} AND n.name LIKE ? ESCAPE '\\')")
            params.append(like)
        else:  # found once, along the names' index, and then looked up by number
            named = "SELECT n.id FROM cases n INDEXED BY cases_by_name WHERE n.study = ? AND n.name LIKE ? ESCAPE '\\'"
            where.append(f"+{number} IN ({named})")  # +: the order's own index leads, not this one
            params += [q.study, like]
    return where, params

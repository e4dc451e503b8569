"""Who may do what, and who is to read which case."""

from __future__ import annotations

import random

from core.studio.db import audit
from core.studio.db.store import Store, now
from core.studio.review.accounts import list_readers, role_of


class NotAllowed(ValueError):
    """The reader's role does not reach that far; the message says whose does."""


def rights(store: Store, reader: str, single_user: bool) -> dict:
    """{"role", "administer", "adjudicate"}. Without sign-in the one user may do everything, and still reads blind."""
    return rights_of(None if single_user else role_of(store, reader), single_user)


def rights_of(role: str | None, single_user: bool) -> dict:
    """`rights` of an account's role, None for a name without an account."""
    role = "single" if single_user else (role or "reader")
    return {
        "role": role,
        "administer": role in ("single", "administrator"),
        "adjudicate": role in ("single", "adjudicator", "administrator"),
    }


def demand(store: Store, reader: str, single_user: bool, right: str) -> None:
    """NotAllowed unless the reader has the right 'administer' or 'adjudicate'."""
    if not rights(store, reader, single_user)[right]:
        raise not_allowed(right)


def not_allowed(right: str) -> NotAllowed:
    """What is said to whoever has not the right 'administer' or 'adjudicate'."""
    who = "an administrator" if right == "administer" else "an adjudicator or an administrator"
    return NotAllowed(f"Only {who} may do that.")


def known_readers(store: Store, study: str | None = None) -> list[str]:
    """Names with an account or with a review, sorted."""
    names = {r["name"] for r in list_readers(store) if r["active"]}
    query = "SELECT DISTINCT reader FROM reviews r"
    if study is not None:
        query += " JOIN cases c ON c.id = r.case_id WHERE c.study = ?"
    names |= {r["reader"] for r in store.query(query, [study] if study else [])}
    return sorted(names, key=str.lower)


def assign(
    store: Store, study: str, readers: list[str], by: str, *, per_case: int = 1, seed: int = 0
) -> dict[str, int]:
    """Deal the study's test cases out evenly, each to `per_case` readers; what was dealt before stays.

    Returns cases per reader. ValueError if there are fewer readers than `per_case`.
    """
    if not 1 <= per_case <= len(set(readers)):
        raise ValueError(f"to give each case to {per_case} readers, name at least as many readers")
    names = sorted(set(readers))
    load = {name: 0 for name in names}
    with store.write() as db:
        held: dict[int, set[str]] = {}
        for row in store.query(
            "SELECT a.case_id, a.reader FROM assignments a JOIN cases c ON c.id = a.case_id WHERE c.study = ?", [study]
        ):
            held.setdefault(row["case_id"], set()).add(row["reader"])
            if row["reader"] in load:
                load[row["reader"]] += 1
        cases = [r["id"] for r in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test'", [study])]
        draw = random.Random(seed)
        draw.shuffle(cases)
        rows = []
        for case_id in cases:
            has = held.get(case_id, set())
            free = sorted((n for n in names if n not in has), key=lambda n: (load[n], draw.random()))
            for name in free[: max(per_case - len(has), 0)]:
                rows.append((case_id, name, by, now()))
                load[name] += 1
        db.conn.executemany("INSERT INTO assignments (case_id, reader, by, created) VALUES (?, ?, ?, ?)", rows)
        audit.record(
            store, by, "assign", study=study, after={"readers": names, "per_case": per_case, "cases": len(rows)}
        )
    return load


def unassign(store: Store, study: str, reader: str, by: str) -> int:
    """Take back what was dealt to a reader and is not read yet; returns how many cases. What is read stays dealt."""
    with store.write() as db:
        gone = db.execute(
            "DELETE FROM assignments WHERE reader = :reader AND case_id IN (SELECT id FROM cases WHERE study = :study) "
            "AND NOT EXISTS (SELECT 1 FROM current_reviews k WHERE k.case_id = assignments.case_id "
            "AND k.reader = :reader)",
            {"reader": reader, "study": study},
        ).rowcount
        audit.record(store, by, "unassign", study=study, before={"reader": reader, "cases": gone})
    return gone


def dealt(store: Store, study: str) -> dict:
    """{"readers": [{"name", "role", "assigned", "read", "read_in_all"}], "cases", "free"} of a study.

    read: of those assigned; read_in_all: assigned or not. cases: of the test part; free: of these, dealt to nobody.
    """
    roles = {r["name"]: r["role"] for r in list_readers(store)}
    counts = {
        r["reader"]: r
        for r in store.query(
            "SELECT a.reader, count(*) AS assigned, count(k.review_id) AS read FROM assignments a "
            "JOIN cases c ON c.id = a.case_id LEFT JOIN current_reviews k ON k.case_id = a.case_id "
            "AND k.reader = a.reader AND k.stage = 'first' WHERE c.study = ? GROUP BY a.reader",
            [study],
        )
    }
    in_all = {
        r["reader"]: r["n"]
        for r in store.query(
            "SELECT k.reader, count(*) AS n FROM cases c JOIN current_reviews k ON k.case_id = c.id "
            "AND k.stage = 'first' WHERE c.study = ? GROUP BY k.reader",
            [study],
        )
    }
    total = store.query(
        "SELECT count(*) AS n, coalesce(sum(id NOT IN (SELECT case_id FROM assignments)), 0) AS free FROM cases "
        "WHERE study = ? AND split = 'test'",
        [study],
    )[0]
    names = sorted({*known_readers(store, study), *counts}, key=str.lower)
    rows = [
        {
            "name": n,
            "role": roles.get(n),
            "read_in_all": in_all.get(n, 0),
            **{k: counts.get(n, {}).get(k, 0) for k in ("assigned", "read")},
        }
        for n in names
    ]
    return {"readers": rows, "cases": total["n"], "free": total["free"]}


def assign_one(store: Store, case_id: int, reader: str, by: str) -> None:
    """Give one case to one more reader."""
    study = store.query("SELECT study FROM cases WHERE id = ?", [case_id])[0]["study"]
    with store.write() as db:
        db.execute(
            "INSERT OR IGNORE INTO assignments (case_id, reader, by, created) VALUES (?, ?, ?, ?)",
            [case_id, reader, by, now()],
        )
        audit.record(store, by, "assign", study=study, case_id=case_id, after={"reader": reader})

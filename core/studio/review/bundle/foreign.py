"""Audit trails that came with bundles: kept beside this home's own, never among it, and checked by their own chain."""

from __future__ import annotations

import re
from collections.abc import Iterable

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.review.bundle.staging import BadBundle
from core.studio.review.bundle.tables import EVENTS

_HASH = re.compile(r"[0-9a-f]{64}")
_NUMBERS = ("id", "case_id", "seconds")


def keep_events(store: Store, rows: Iterable[dict], bundle: str) -> int:
    """Store a bundle's events under the bundle's own name; returns how many. Their numbers are those of their home."""
    count = 0
    names = ", ".join(("bundle", *EVENTS))
    statement = f"INSERT INTO foreign_events ({names}) VALUES ({', '.join('?' * (1 + len(EVENTS)))})"
    for row in rows:
        values = [row.get(c) for c in EVENTS]
        for column, value in zip(EVENTS, values, strict=True):
            allowed = (int, float) if column in _NUMBERS else (str,)
            if value is not None and (isinstance(value, bool) or not isinstance(value, allowed)):
                raise BadBundle(f"an event's {column} holds what it cannot hold")
        if not (
            isinstance(row.get("id"), int) and all(_HASH.fullmatch(row.get(c) or "") for c in ("previous", "hash"))
        ):
            raise BadBundle("an event has no number or no seal")
        store.db.execute(statement, [bundle, *values])
        count += 1
    return count


def verify_foreign(store: Store) -> list[str]:
    """Problems in the trails that came with bundles: links of every event, seals of those whose content came along."""
    problems: list[str] = []
    last: dict[str, str] = {}
    for row in store.db.query("SELECT * FROM foreign_events ORDER BY bundle, id"):
        bundle = row.pop("bundle")
        if row["previous"] != last.get(bundle, audit.START):
            problems.append(f"{bundle}: event {row['id']} does not follow the event before it")
        if row["at"] is not None and audit.seal(row) != row["hash"]:
            problems.append(f"{bundle}: event {row['id']} was altered")
        last[bundle] = row["hash"]
    return problems

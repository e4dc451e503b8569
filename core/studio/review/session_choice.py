"""Which cases a reading session holds: chosen among those of the worklist, in its order or shuffled."""

from __future__ import annotations

import random
from typing import Any

from core.studio.db.store import Store
from core.studio.review.worklist import Query, counts, neighbour

CHOICES: dict[str, tuple[str, dict[str, Any]]] = {  # title, and what of the worklist it is
    "all": ("All test cases", {}),
    "unread": ("What I have not read", {"decision": "unread"}),
    "assigned": ("What is assigned to me", {"mine": True}),
    "flagged": ("What the detector flags", {"flagged": True}),
    "against": ("What I read otherwise than the detector", {"decision": "against"}),
}


def _query(study: str, reader: str, run: str | None, choice: str) -> Query:
    if choice not in CHOICES:
        raise ValueError(f"A session holds one of {', '.join(CHOICES)}, not {choice!r}.")
    return Query(study=study, reader=reader, run=run, **CHOICES[choice][1])


def available(store: Store, study: str, reader: str, run: str | None) -> list[dict]:
    """[{"name", "title", "cases"}]: how many cases each choice has. Of use while no session is open."""
    rows = []
    for name, (title, _) in CHOICES.items():
        if run is None and name in ("flagged", "against"):
            continue
        query = _query(study, reader, run, name)
        ids = counts(store, query) if not query.decision else None
        number = ids["total"] if ids else len(neighbour(store, query, None, count=1_000_000))
        rows.append({"name": name, "title": title, "cases": number})
    return rows


def chosen(
    store: Store, study: str, reader: str, run: str | None, choice: str, count: int, shuffled: bool, seed: int
) -> list[int]:
    """Numbers of `count` cases (0: all of them); shuffled: drawn and ordered at random, else the worklist's first."""
    ids = neighbour(store, _query(study, reader, run, choice), None, count=1_000_000)
    if shuffled:
        random.Random(seed).shuffle(ids)
    return ids[:count] if count else ids

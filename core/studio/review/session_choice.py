"""Which cases a reading session holds: chosen among those of the worklist, in its order or shuffled."""

from __future__ import annotations

import random
from typing import Any

from core.studio.review.context import RequestContext
from core.studio.review.worklist import Query, Worklist

CHOICES: dict[str, tuple[str, dict[str, Any]]] = {  # title, and what of the worklist it is
    "all": ("All test cases", {}),
    "unread": ("What I have not read", {"decision": "unread"}),
    "assigned": ("What is assigned to me", {"mine": True}),
    "flagged": ("What the detector flags", {"flagged": True}),
    "against": ("What I read otherwise than the detector", {"decision": "against"}),
}


def _list(context: RequestContext, choice: str) -> Worklist:
    if choice not in CHOICES:
        raise ValueError(f"A session holds one of {', '.join(CHOICES)}, not {choice!r}.")
    return Worklist(context, Query(**CHOICES[choice][1]))


def available(context: RequestContext) -> list[dict]:
    """[{"name", "title", "cases"}]: how many cases each choice has. Of use while no session is open."""
    rows = []
    for name, (title, _) in CHOICES.items():
        if (context.run is None or context.blinded) and name in ("flagged", "against"):
            continue
        wanted = _list(context, name)
        number = wanted.total() if wanted.query.decision else wanted.counts()["total"]
        rows.append({"name": name, "title": title, "cases": number})
    return rows


def chosen(context: RequestContext, choice: str, count: int, shuffled: bool, seed: int) -> list[int]:
    """Numbers of `count` cases (0: all of them); shuffled: drawn and ordered at random, else the worklist's first."""
    ids = _list(context, choice).neighbour(None, count=1_000_000)
    if shuffled:
        random.Random(seed).shuffle(ids)
    return ids[:count] if count else ids

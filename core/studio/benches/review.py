"""The review room: worklist pages at 1,000, 10,000 and 100,000 cases, opening a case, saving a decision."""

from __future__ import annotations

import dataclasses
import random
import tempfile
import time

from core.studio import store as stores
from core.studio.review import decisions, worklist
from core.studio.review.cases import detail, scored_runs
from core.studio.review.worklist import Query
from core.studio.store import Store, now

SIZES = (1_000, 10_000, 100_000)
FILTERS = ({}, {"flagged": True}, {"decision": "unread"}, {"decision": "against"}, {"text": "77"}, {"has_mask": False})


def run(quick: bool = False) -> dict:
    """Milliseconds: the slowest page over all orders and filters, counts, next unread, case, decision.

    ratio: the time of a page in the middle of the largest list to that of the first page of the smallest.
    """
    sizes = SIZES[:2] if quick else SIZES
    found = {}
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            store = stores.open(folder)
            _fill(store, n)
            found[str(n)] = _measure(store, n)
            store.close()
    ratio = found[str(sizes[-1])]["page_middle_ms"] / found[str(sizes[0])]["page_ms"]
    return {"ratio": round(ratio, 2), "cases": found}


def _fill(store: Store, n: int) -> None:
    draw = random.Random(0)
    with store.write() as db:
        db.execute("INSERT INTO studies (id, name, created) VALUES ('s', 's', ?)", [now()])
        db.execute(
            "INSERT INTO runs (id, study, kind, name, method, created) VALUES ('r', 's', 'fit', 'r', 'padim', ?)",
            [now()],
        )
        cases = (
            (f"image-{draw.randrange(10**9):09}.png", f"/{i}", f"{draw.getrandbits(256):064x}", i, now())
            for i in range(n)
        )
        db.conn.executemany(
            'INSERT INTO cases (study, name, path, split, label, width, height, bits, sha256, "row", added) '
            "VALUES ('s', ?, ?, 'test', 'unknown', 512, 512, 8, ?, ?, ?)",
            cases,
        )
        ids = [r[0] for r in db.execute("SELECT id FROM cases")]
        scores = [(i, draw.random()) for i in ids]
        db.conn.executemany(
            "INSERT INTO readings (run, case_id, score, score_roi, percentile, percentile_roi, flagged, "
            "flagged_roi, created) "
            "VALUES ('r', ?, ?, ?, ?, ?, ?, ?, '')",
            ((i, s, s, 100 * s, 100 * s, int(s > 0.95), int(s > 0.95)) for i, s in scores),
        )
        db.conn.executemany(
            "INSERT INTO reviews (case_id, reader, decision, created) VALUES (?, ?, ?, ?)",
            ((i, r, draw.choice(decisions.DECISIONS), now()) for r in ("ann", "ben") for i in ids[: n // 2]),
        )


def _timed(act) -> tuple[float, object]:
    started = time.perf_counter()
    value = act()
    return 1000 * (time.perf_counter() - started), value


def _measure(store: Store, n: int) -> dict:
    worst = {"page": 0.0, "counts": 0.0, "next": 0.0}
    for sort in worklist.SORTS:
        for filters in FILTERS:
            query = Query("s", "ann", "r", sort=sort, **filters)
            worst["page"] = max(worst["page"], _timed(lambda q=query: worklist.page(store, q))[0])
            worst["counts"] = max(worst["counts"], _timed(lambda q=query: worklist.counts(store, q))[0])
            unread = dataclasses.replace(query, decision="unread")
            worst["next"] = max(worst["next"], _timed(lambda q=unread: worklist.neighbour(store, q, n // 2))[0])
    plain = Query("s", "ann", "r")
    first = min(_timed(lambda: worklist.page(store, plain))[0] for _ in range(5))
    jump, after = _timed(lambda: worklist.position(store, plain, n // 2))
    middle = min(_timed(lambda: worklist.page(store, plain, after))[0] for _ in range(5))
    runs = scored_runs(store, "s")
    cases = sorted(_timed(lambda i=i: detail(store, i, "ann", "r", runs))[0] for i in range(1, 101))
    saves = sorted(_timed(lambda i=i: decisions.decide(store, i, "ann", "normal"))[0] for i in range(1, 101))
    figures = {
        "page_ms": first, "page_middle_ms": middle, "jump_ms": jump, "page_worst_ms": worst["page"],
        "counts_worst_ms": worst["counts"], "next_unread_worst_ms": worst["next"], "case_p95_ms": cases[94],
        "decide_median_ms": saves[49], "decide_p95_ms": saves[94],
    }  # fmt: skip
    return {k: round(v, 2) for k, v in figures.items()}

"""The review room at up to 100,000 cases."""

from __future__ import annotations

import random
import tempfile
import time

from core.studio.db import opening
from core.studio.db.store import Store, now
from core.studio.review import decisions, worklist
from core.studio.review.cases import detail
from core.studio.review.context import RequestContext, reading, writing
from core.studio.review.worklist import Query, Worklist
from tests.benches import bench

SIZES = (1_000, 10_000, 100_000)
FILTERS = {
    "none": {},
    "flagged": {"flagged": True},
    "not flagged": {"flagged": False},
    "unread": {"decision": "unread"},
    "read": {"decision": "read"},
    "abnormal": {"decision": "abnormal"},
    "against the reading": {"decision": "against"},
    "with mask": {"has_mask": True},
    "without mask": {"has_mask": False},
    "assigned": {"mine": True},
    "tag": {"tag": "odd"},
    "text, rare": {"text": "777"},
    "text, common": {"text": "image"},
    "text, nowhere": {"text": "nothing is called so"},
    "held out": {"splits": ("holdout",)},
    "all of it": {"flagged": True, "decision": "unread", "has_mask": False, "mine": True, "tag": "odd", "text": "7"},
}
MAP = 1000  # bytes of a reading's heat map; a real one is larger, and a row that opens it costs as much


@bench("review")
def review(quick: bool = False) -> dict:
    """The review room: worklist pages at 1,000, 10,000 and 100,000 cases, opening a case, saving a decision.

    Milliseconds: the slowest page over all orders and filters, counts, next unread, case, decision; and, for each
    filter, the slowest order's, on the clock and of the processor alone (`cpu`), which a busy machine does not change.

    ratio: the time of a page in the middle of the largest list to that of the first page of the smallest.
    """
    sizes = SIZES[:2] if quick else SIZES
    figures = {}
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            store = opening.open(folder)
            _fill(store, n)
            figures[str(n)] = _measure(store, n)
            store.close()
    ratio = figures[str(sizes[-1])]["page_middle_ms"] / figures[str(sizes[0])]["page_ms"]
    return {"ratio": round(ratio, 2), "cases": figures}


def _fill(store: Store, n: int) -> None:
    draw = random.Random(0)
    store.db.execute("PRAGMA synchronous=OFF")  # these rows may be lost; the ones that are measured may not
    with store.write() as db:
        db.execute("INSERT INTO studies (id, name, created) VALUES ('s', 's', ?)", [now()])
        db.execute(
            "INSERT INTO runs (id, study, kind, name, method, created) VALUES ('r', 's', 'fit', 'r', 'padim', ?)",
            [now()],
        )
        cases = (
            (
                f"image-{draw.randrange(10**9):09}.png", f"/{i}", "test" if i % 500 else "holdout",
                f"{draw.getrandbits(256):064x}", i, now(), '["odd"]' if i % 300 == 7 else "[]",
            )
            for i in range(n)
        )  # fmt: skip
        db.conn.executemany(
            'INSERT INTO cases (study, name, path, split, label, width, height, bits, sha256, "row", added, tags) '
            "VALUES ('s', ?, ?, ?, 'unknown', 512, 512, 8, ?, ?, ?, ?)",
            cases,
        )
        ids = [r[0] for r in db.execute("SELECT id FROM cases")]
        scores = [(i, draw.random()) for i in ids]
        db.conn.executemany(
            "INSERT INTO readings (run, case_id, score, score_roi, percentile, percentile_roi, flagged, "
            "flagged_roi, map, created) "
            f"VALUES ('r', ?, ?, ?, ?, ?, ?, ?, zeroblob({MAP}), '')",
            ((i, s, s, 100 * s, 100 * s, int(s > 0.95), int(s > 0.95)) for i, s in scores),
        )
        db.conn.executemany(
            "INSERT INTO lesion_masks (case_id, version, source, created, png) VALUES (?, 1, 'import', '', x'00')",
            ((i,) for i in ids[::50]),
        )
        db.conn.executemany("INSERT INTO assignments VALUES (?, 'ann', 'root', '')", ((i,) for i in ids[::20]))
        db.conn.executemany(
            "INSERT INTO reviews (case_id, reader, decision, created) VALUES (?, ?, ?, ?)",
            ((i, r, draw.choice(decisions.DECISIONS), now()) for r in ("ann", "ben") for i in ids[: n // 2]),
        )
    store.db.execute("PRAGMA synchronous=FULL")


def _timed(act) -> tuple[float, float, object]:
    """Milliseconds on the clock, milliseconds of the processor, what came of it."""
    started, worked = time.perf_counter(), time.thread_time()
    value = act()
    return 1000 * (time.perf_counter() - started), 1000 * (time.thread_time() - worked), value


def _list(store: Store, query: Query) -> Worklist:
    return Worklist(RequestContext.read(store, "ann", study="s", run="r"), query)


def _opened(store: Store, case: int) -> dict:
    with reading(store, "ann", case_id=case, run="r") as context:
        return detail(context)


def _saved(store: Store, case: int) -> dict:
    with writing(store, "ann", case_id=case) as context:
        return decisions.decide(context, "normal")


def _filtered(store: Store, n: int) -> dict[str, dict]:
    """For each filter, the slowest of all orders, either way: {"page", "counts", "next", each also with "_cpu"}."""
    slowest = {}
    for name, filters in FILTERS.items():
        worst = slowest[name] = {}
        for sort, down in ((s, d) for s in worklist.SORTS for d in (True, False)):
            asked = Query(sort=sort, descending=down, **filters)
            acts = {
                "page": lambda q=asked: _list(store, q).page(),
                "counts": lambda q=asked: _list(store, q).counts(),
                "next": lambda q=asked: _list(store, q).with_decision("unread").neighbour(n // 4),
            }
            for act, run_ in acts.items():
                clock, cpu, _ = _timed(run_)
                worst[act] = max(worst.get(act, 0.0), clock)
                worst[f"{act}_cpu"] = max(worst.get(f"{act}_cpu", 0.0), cpu)
    return {name: {k: round(v, 1) for k, v in worst.items()} for name, worst in slowest.items()}


def _measure(store: Store, n: int) -> dict:
    filtered = _filtered(store, n)
    plain = Query()
    first = min(_timed(lambda: _list(store, plain).page())[0] for _ in range(5))
    jump, jump_cpu, after = _timed(lambda: _list(store, plain).position(n // 2))
    middle = min(_timed(lambda: _list(store, plain).page(after))[0] for _ in range(5))
    cases = sorted(_timed(lambda i=i: _opened(store, i))[0] for i in range(1, 101))
    saves = sorted(_timed(lambda i=i: _saved(store, i))[0] for i in range(1, 101))
    figures = {"page_ms": first, "page_middle_ms": middle, "jump_ms": jump, "jump_cpu_ms": jump_cpu}
    for act, title in (("page", "page"), ("counts", "counts"), ("next", "next_unread")):
        figures[f"{title}_worst_ms"] = max(w[act] for w in filtered.values())
        figures[f"{title}_worst_cpu_ms"] = max(w[f"{act}_cpu"] for w in filtered.values())
    figures |= {"case_p95_ms": cases[94], "decide_median_ms": saves[49], "decide_p95_ms": saves[94]}
    return {**{k: round(v, 2) for k, v in figures.items()}, "filters_ms": filtered}

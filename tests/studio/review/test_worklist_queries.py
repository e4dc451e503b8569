"""The worklist's statements: counts against a plain count, and no page that sorts or scans."""

import json

import pytest

from core.studio.review import decisions, worklist
from core.studio.review.worklist import Query
from tests.studio.review.conftest import LARGE, asks, decide, every_page, list_of

pytestmark = pytest.mark.slow

FILTERS = [
    {},
    {"flagged": True},
    {"flagged": False},
    {"decision": "unread"},
    {"decision": "read"},
    {"decision": "unsure"},
    {"decision": "against"},
    {"has_mask": True},
    {"has_mask": False},
    {"mine": True},
    {"tag": "odd"},
    {"text": "77"},
    {"flagged": False, "decision": "unread", "tag": "odd", "text": "7"},
    {"splits": ("holdout",)},
    {"splits": ("test", "holdout", "train")},
]


def _statements(store, act) -> list[str]:
    """What `act` asks of the database, with its values written in."""
    said = []
    store.db.conn.set_trace_callback(lambda line: said.append(line) if line.startswith("SELECT") else None)
    act()
    store.db.conn.set_trace_callback(None)
    return said


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("sort", worklist.SORTS)
def test_no_page_jump_or_count_sorts_anything_or_scans_a_table(large, sort, filters):
    query = Query(sort=sort, **filters)
    acts = [
        lambda: list_of(large, query).page(),
        lambda: list_of(large, query).page(None, 5, backwards=True),
        lambda: list_of(large, query).neighbour(41),
        lambda: list_of(large, query).position(9),
        lambda: list_of(large, query).counts(),
    ]
    for act in acts:
        for statement in _statements(large, act):
            plan = [r["detail"] for r in large.query(f"EXPLAIN QUERY PLAN {statement}")]
            assert not any("TEMP B-TREE" in line for line in plan), (statement, plan)
            scanned = [line for line in plan if line.startswith("SCAN") and "j VIRTUAL TABLE" not in line]
            assert not scanned, (statement, plan)
            if " ORDER BY " in statement:  # the scan itself opens no row: its order's index has all it needs
                assert "COVERING INDEX" in plan[0], (statement, plan)


@pytest.mark.parametrize("filters", FILTERS)
def test_counts_are_those_of_a_plain_count(large, filters):
    db = large.db
    with large.write():
        db.execute("UPDATE cases SET split = 'holdout' WHERE id % 13 = 0")
        db.execute('UPDATE cases SET tags = \'["odd", "late"]\' WHERE id % 6 = 0')
        for i in range(1, LARGE, 7):
            mask = "INSERT INTO lesion_masks (case_id, version, source, created, png) VALUES (?, 1, 'import', '', x'')"
            db.execute(mask, [i])
            db.execute("INSERT INTO assignments VALUES (?, 'ann', 'root', '')", [i])
    for case, word in ((3, "unsure"), (4, "normal"), (70, "abnormal")):
        decide(large, case, "ann", word)
    decisions.undo(asks(large, "ann", study="large"))
    decide(large, 5, "ann", "normal", adjudication=True)  # settles, but is no reading of ann's
    cases = large.query("SELECT c.*, r.flagged_roi AS flagged FROM cases c LEFT JOIN readings r ON r.case_id = c.id")
    said = {}
    for r in large.query(
        "SELECT case_id, decision FROM reviews WHERE reader = 'ann' AND active AND stage != 'adjudication' ORDER BY id"
    ):
        said[r["case_id"]] = r["decision"]
    masked = {r["case_id"] for r in large.query("SELECT case_id FROM lesion_masks")}
    mine = {r["case_id"] for r in large.query("SELECT case_id FROM assignments WHERE reader = 'ann'")}

    def passes(c):
        return (
            c["split"] in filters.get("splits", ("test",))
            and filters.get("flagged") in (None, bool(c["flagged"]))
            and filters.get("has_mask") in (None, c["id"] in masked)
            and (not filters.get("mine") or c["id"] in mine)
            and filters.get("tag", "") in ("", *json.loads(c["tags"]))
            and filters.get("text", "") in c["name"]
        )

    kept = [said.get(c["id"]) for c in cases if passes(c)]
    counts = list_of(large, Query(**filters)).counts()
    assert counts["total"] == len(kept) and counts["unread"] == kept.count(None)
    assert all(counts[d] == kept.count(d) for d in decisions.DECISIONS)
    if not filters.get("decision"):
        every = every_page(list_of(large, Query(sort="name", **filters)), 20)
        assert len(every) == counts["total"]

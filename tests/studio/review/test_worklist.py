"""The worklist's pages against a plain sort in Python; blind reading; counts; neighbours."""

import dataclasses
import json

import pytest

from core.studio.review import blind, decisions, worklist
from core.studio.review.accounts import add_reader
from core.studio.review.worklist import Query
from tests.studio.review.conftest import fill

N = 137


@pytest.fixture
def large(bare):
    fill(bare, N, reviewed=60)
    return bare


def _page_through(store, query, size, backwards=False):
    ids, after = [], None
    while True:
        page = worklist.page(store, query, after, size, backwards)
        ids += [r["id"] for r in page["rows"]]
        after = page["cursor"]
        if after is None:
            return ids


def _plain(store, query):
    """The same order, by Python."""
    rows = store.query(
        "SELECT c.*, r.score, r.flagged, (SELECT decision FROM reviews v WHERE v.case_id = c.id AND v.reader = 'ann' "
        "ORDER BY v.id DESC LIMIT 1) AS word, (SELECT created FROM reviews v WHERE v.case_id = c.id AND v.reader "
        "= 'ann') AS at "
        "FROM cases c LEFT JOIN readings r ON r.case_id = c.id AND r.run = 'r'"
    )
    if query.flagged is not None:
        rows = [r for r in rows if bool(r["flagged"]) == query.flagged]
    if query.decision == "unread":
        rows = [r for r in rows if r["word"] is None]
    elif query.decision == "read":
        rows = [r for r in rows if r["word"] is not None]
    elif query.decision == "against":
        rows = [r for r in rows if r["word"] == ("normal" if r["flagged"] else "abnormal")]
    elif query.decision:
        rows = [r for r in rows if r["word"] == query.decision]
    if query.text:
        rows = [r for r in rows if query.text in r["name"]]
    if query.tag:
        rows = [r for r in rows if query.tag in r["tags"]]
    if query.sort in ("percentile", "score"):
        scored = sorted((r for r in rows if r["score"] is not None), key=lambda r: (r["score"], r["id"]))
        other = sorted((r for r in rows if r["score"] is None), key=lambda r: r["id"])
        parts = (scored, other)
    elif query.sort == "reviewed":
        parts = (sorted((r for r in rows if r["at"]), key=lambda r: (r["at"], r["id"])),)
    else:
        parts = (sorted(rows, key=lambda r: (r[{"name": "name", "added": "added"}[query.sort]], r["id"])),)
    return [r["id"] for part in parts for r in (part[::-1] if query.descending else part)]


@pytest.mark.parametrize("sort", ["percentile", "name", "added", "reviewed"])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"flagged": True},
        {"decision": "unread"},
        {"decision": "normal"},
        {"decision": "against"},
        {"text": "7"},
        {"tag": "odd"},
    ],
)
def test_pages_are_the_sorted_list_without_gap_or_repeat(large, sort, descending, filters):
    query = Query("large", "ann", "r", sort=sort, descending=descending, **filters)
    expected = _plain(large, query)
    assert _page_through(large, query, 10) == expected
    assert _page_through(large, query, 10, backwards=True) == expected[::-1]
    for number in (1, 9, 40):
        if number < len(expected):
            after = worklist.position(large, query, number)
            assert [r["id"] for r in worklist.page(large, query, after, 3)["rows"]] == expected[number : number + 3]


def test_counts_and_next_unread(large):
    query = Query("large", "ann", "r")
    counts = worklist.counts(large, query)
    assert (counts["total"], counts["read"], counts["unread"]) == (N, 60, N - 60)
    assert counts["normal"] + counts["abnormal"] + counts["unsure"] == 60
    order = _plain(large, query)
    unread = set(_plain(large, dataclasses.replace(query, decision="unread")))
    at = order[20]
    expected = [i for i in order[21:] if i in unread][:4]
    assert worklist.neighbour(large, dataclasses.replace(query, decision="unread"), at, count=4) == expected
    assert worklist.neighbour(large, query, at, backwards=True) == [order[19]]
    assert worklist.neighbour(large, query, order[-1]) == []


def test_the_disagreement_order_holds_only_cases_on_which_readers_differ(large):
    rows = worklist.page(large, Query("large", "ann", "r", sort="disagreement"))["rows"]
    said = {}
    for r in large.query("SELECT case_id, reader, decision FROM reviews"):
        said.setdefault(r["case_id"], set()).add(r["decision"])
    assert {r["id"] for r in rows} == {i for i, words in said.items() if len(words) > 1}


def test_a_line_of_sql_in_the_text_is_text(large):
    assert worklist.page(large, Query("large", "ann", "r", text="%' OR 1=1 --"))["rows"] == []
    with pytest.raises(ValueError, match="sorted by one of"):
        Query("large", "ann", "r", sort="name; DROP TABLE cases")


def test_a_blind_reader_gets_an_order_and_rows_that_tell_nothing(large):
    blind.set_blind(large, "large", True, "root")
    add_reader(large, "chief", "long enough", "administrator")
    asked = Query("large", "cleo", "r", sort="percentile", flagged=True, text="7", has_mask=True)
    seen = worklist.page(large, asked)
    assert len(seen["rows"]) == worklist.PAGE  # the filters that would tell were not applied
    assert all(set(r) <= {"id", "name", "v", "decision", "first", "second", "adjudicated", "key"} for r in seen["rows"])
    assert not any("image-" in r["name"] for r in seen["rows"])
    order = [r["id"] for r in seen["rows"]]
    assert order == [r["id"] for r in large.query("SELECT id FROM cases ORDER BY sha256 LIMIT ?", [worklist.PAGE])]
    decisions.decide(large, order[3], "cleo", "normal")
    row = worklist.page(large, asked)["rows"][3]
    assert row["first"] == "normal" and "percentile" in row and row["disagreement"] == 0
    assert len(worklist.page(large, dataclasses.replace(asked, reader="chief"))["rows"]) < 20


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
    query = Query("large", "ann", "r", sort=sort, **filters)
    acts = [
        lambda: worklist.page(large, query),
        lambda: worklist.page(large, query, None, 5, backwards=True),
        lambda: worklist.neighbour(large, query, 41),
        lambda: worklist.position(large, query, 9),
        lambda: worklist.counts(large, query),
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
        for i in range(1, N, 7):
            mask = "INSERT INTO lesion_masks (case_id, version, source, created, png) VALUES (?, 1, 'import', '', x'')"
            db.execute(mask, [i])
            db.execute("INSERT INTO assignments VALUES (?, 'ann', 'root', '')", [i])
    for case, word in ((3, "unsure"), (4, "normal"), (70, "abnormal")):
        decisions.decide(large, case, "ann", word)
    decisions.undo(large, "large", "ann")
    decisions.decide(large, 5, "ann", "normal", adjudication=True)  # settles, but is no reading of ann's
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
    counts = worklist.counts(large, Query("large", "ann", "r", **filters))
    assert counts["total"] == len(kept) and counts["unread"] == kept.count(None)
    assert all(counts[d] == kept.count(d) for d in decisions.DECISIONS)
    if not filters.get("decision"):
        every = _page_through(large, Query("large", "ann", "r", sort="name", **filters), 20)
        assert len(every) == counts["total"]


def test_facts_follow_every_write_and_leave_with_their_case(large):
    words = lambda: {  # noqa: E731
        r["case_id"]: (r["decision"], r["created"])
        for r in large.query("SELECT * FROM reader_words WHERE reader = 'ann'")
    }
    first = words()[10]
    blind.set_blind(large, "large", True, "root")
    other = {"normal": "abnormal"}.get(first[0], "normal")
    decisions.decide(large, 10, "ann", other)
    assert words()[10] == (other, first[1])  # the second look counts, the first one's time stays
    decisions.undo(large, "large", "ann")
    assert words()[10] == first
    large.execute("UPDATE cases SET tags = '[\"late\"]' WHERE id = 10")
    assert [r["tag"] for r in large.query("SELECT tag FROM case_tags WHERE case_id = 10")] == ["late"]
    large.execute("DELETE FROM cases WHERE id = 137")
    assert not large.query("SELECT 1 FROM case_tags WHERE case_id = 137")

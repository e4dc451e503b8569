"""The worklist's pages against a plain sort in Python; blind reading; counts; neighbours."""

import dataclasses
import json
import zlib

import numpy as np
import pytest

from core.studio.review import cases, decisions, sessions, worklist
from core.studio.review.people import add_reader
from core.studio.review.worklist import Query
from core.studio.runs import scoring
from core.studio.runs.scoring import WORDS, ordered
from tests.studio.review.conftest import LARGE, STUDY, add_readings, asks, decide, every_page, list_of


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


@pytest.mark.slow
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
    query = Query(sort=sort, descending=descending, **filters)
    expected = _plain(large, query)
    assert every_page(list_of(large, query), 10) == expected
    assert every_page(list_of(large, query), 10, backwards=True) == expected[::-1]
    for number in (1, 9, 40):
        if number < len(expected):
            after = list_of(large, query).position(number)
            assert [r["id"] for r in list_of(large, query).page(after, 3)["rows"]] == expected[number : number + 3]


@pytest.mark.slow
def test_counts_and_next_unread(large):
    query = Query()
    counts = list_of(large, query).counts()
    assert (counts["total"], counts["read"], counts["unread"]) == (LARGE, 60, LARGE - 60)
    assert counts["normal"] + counts["abnormal"] + counts["unsure"] == 60
    order = _plain(large, query)
    unread = set(_plain(large, dataclasses.replace(query, decision="unread")))
    at = order[20]
    expected = [i for i in order[21:] if i in unread][:4]
    assert list_of(large, dataclasses.replace(query, decision="unread")).neighbour(at, count=4) == expected
    assert list_of(large, query).neighbour(at, backwards=True) == [order[19]]
    assert list_of(large, query).neighbour(order[-1]) == []


@pytest.mark.slow
def test_the_disagreement_order_holds_only_cases_on_which_readers_differ(large):
    rows = list_of(large, Query(sort="disagreement")).page()["rows"]
    said = {}
    for r in large.query("SELECT case_id, reader, decision FROM reviews"):
        said.setdefault(r["case_id"], set()).add(r["decision"])
    assert {r["id"] for r in rows} == {i for i, words in said.items() if len(words) > 1}


@pytest.mark.slow
def test_a_line_of_sql_in_the_text_is_text(large):
    assert list_of(large, Query(text="%' OR 1=1 --")).page()["rows"] == []
    with pytest.raises(ValueError, match="sorted by one of"):
        Query(sort="name; DROP TABLE cases")


@pytest.mark.slow
def test_a_blind_reader_gets_an_order_and_rows_that_give_nothing_away(large):
    sessions.set_blind(large, "large", True, "root")
    add_reader(large, "chief", "long enough", "administrator")
    asked = Query(sort="percentile", flagged=True, text="7", has_mask=True)
    cleo = lambda: list_of(large, asked, "cleo")  # noqa: E731
    seen = cleo().page()
    assert len(seen["rows"]) == worklist.PAGE  # the filters that would give something away were not applied
    assert all(set(r) <= {"id", "name", "v", "decision", "first", "second", "adjudicated", "key"} for r in seen["rows"])
    assert not any("image-" in r["name"] for r in seen["rows"])
    order = [r["id"] for r in seen["rows"]]
    for column in ("id", "sha256", "name", "added"):
        rows = large.query(f"SELECT id FROM cases ORDER BY {column} LIMIT ?", [worklist.PAGE])
        assert sum(a == r["id"] for a, r in zip(order, rows, strict=True)) < 20, f"the order is not that of {column}"
    assert [r["id"] for r in cleo().page()["rows"]] == order, "and stays"
    assert [r["id"] for r in list_of(large, asked, "dan").page()["rows"]] != order, "for the reader whose it is"
    decide(large, order[3], "cleo", "normal")
    row = cleo().page()["rows"][3]
    assert row["first"] == "normal" and "percentile" in row and row["disagreement"] == 0
    assert len(list_of(large, asked, "chief").page()["rows"]) < 20


@pytest.mark.slow
def test_facts_follow_every_write_and_leave_with_their_case(large):
    words = lambda: {  # noqa: E731
        r["case_id"]: (r["decision"], r["created"])
        for r in large.query("SELECT * FROM reader_words WHERE reader = 'ann'")
    }
    first = words()[10]
    sessions.set_blind(large, "large", True, "root")
    other = {"normal": "abnormal"}.get(first[0], "normal")
    decide(large, 10, "ann", other)
    assert words()[10] == (other, first[1])  # the second look counts, the first one's time stays
    decisions.undo(asks(large, "ann", study="large"))
    assert words()[10] == first
    large.execute("UPDATE cases SET tags = '[\"late\"]' WHERE id = 10")
    assert [r["tag"] for r in large.query("SELECT tag FROM case_tags WHERE case_id = 10")] == ["late"]
    large.execute("DELETE FROM cases WHERE id = 137")
    assert not large.query("SELECT 1 FROM case_tags WHERE case_id = 137")


@pytest.mark.slow
def test_a_filter_by_what_another_reader_says_otherwise(room):
    store, _ = room
    first, second, third = [r["id"] for r in store.query("SELECT id FROM cases WHERE split = 'test' LIMIT 3")]
    for case, own, other in ((first, "normal", "abnormal"), (second, "normal", "normal"), (third, "abnormal", None)):
        decide(store, case, "ann", own)
        if other:
            decide(store, case, "bob", other)
    rows = list_of(store, Query(decision="differs"), study=STUDY, run=None).page()["rows"]
    assert [r["id"] for r in rows] == [first]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "1d0b0b0c-7a7b-4a4e-9d1c-0123456789ab.jpg",
        "d41d8cd98f00b204e9800998ecf8427e.png",
        "1.2.840.113619.2.55.3.604688119.971.1.dcm",
    ],
)
def test_a_name_that_no_one_can_read_is_a_number_and_a_day(name):
    row = {"id": 7, "name": name, "added": "2026-11-20T10:00:00Z"}
    assert cases.name_shown(row) == "Case 7"
    assert cases.name_shown({**row, "name": "polyp-12.png"}) == "polyp-12.png"
    assert cases.name_shown({**row, "name": f"{name} #3"}) == "Case 7 #3"


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
    {"label": "unknown"},
]


def _statements(store, act) -> list[str]:
    """What `act` asks of the database, with its values written in."""
    said = []
    store.db.conn.set_trace_callback(lambda line: said.append(line) if line.startswith("SELECT") else None)
    act()
    store.db.conn.set_trace_callback(None)
    return said


@pytest.mark.slow
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
        lambda: list_of(large, query).place(41),
        lambda: list_of(large, query).total(),
        lambda: list_of(large, query).nearest(0.4),
        lambda: list_of(large, query).distribution(),
    ]
    for act in acts:
        for statement in _statements(large, act):
            plan = [r["detail"] for r in large.query(f"EXPLAIN QUERY PLAN {statement}")]
            assert not any("TEMP B-TREE" in line for line in plan), (statement, plan)
            allowed = ("j VIRTUAL TABLE", "SCAN (")
            scanned = [line for line in plan if line.startswith("SCAN") and not any(text in line for text in allowed)]
            assert not scanned, (statement, plan)
            # the scan itself opens no row: its order's index has all it needs
            if " ORDER BY " in statement and not statement.startswith("SELECT count"):
                assert "COVERING INDEX" in plan[0], (statement, plan)


@pytest.mark.slow
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


@pytest.mark.parametrize("sort", worklist.SORTS)
@pytest.mark.parametrize("down", [True, False])
def test_a_case_stands_where_the_pages_have_it(large, sort, down):
    for filters in ({}, {"decision": "read"}, {"tag": "odd"}, {"label": "unknown"}, {"label": "abnormal"}):
        query = Query(sort=sort, descending=down, **filters)
        ids = every_page(list_of(large, query), 50)
        assert list_of(large, query).total() == len(ids)
        assert [list_of(large, query).place(case) for case in ids[::9]] == list(range(len(ids)))[::9]


def test_the_order_by_decision_goes_from_abnormal_to_normal_and_ends_with_what_is_unread(large):
    query = Query(sort="decision")
    rows = list_of(large, query).page(None, 500)["rows"]
    said = [row["decision"] for row in rows]
    assert len(rows) == LARGE
    assert said == sorted(said, key=["abnormal", "unsure", "normal", None].index)
    upwards = [
        row["decision"] for row in list_of(large, Query(sort="decision", descending=False)).page(None, 500)["rows"]
    ]
    assert upwards == sorted(said, key=["normal", "unsure", "abnormal", None].index)


def test_the_spread_counts_every_score_and_the_threshold_divides_the_flagged(large):
    query = Query()
    spread = list_of(large, query).distribution()
    scores = [r["score_roi"] for r in large.query("SELECT score_roi FROM readings")]
    assert sum(spread["bins"]) == len(scores) and len(spread["bins"]) == worklist.BINS
    assert max(s for s in scores if s <= 0.95) < spread["threshold"] < min(s for s in scores if s > 0.95)
    assert spread["lo"] <= spread["threshold"] <= spread["hi"]
    few = list_of(large, Query(flagged=True)).distribution()
    assert sum(few["bins"]) == sum(s > 0.95 for s in scores) and few["threshold"] == spread["threshold"]


def test_the_nearest_score_is_found_from_either_side(large):
    scores = {r["case_id"]: r["score_roi"] for r in large.query("SELECT case_id, score_roi FROM readings")}
    for wanted in (-1.0, 0.1234, 0.5001, 0.97, 7.0):
        found = list_of(large, Query(sort="name")).nearest(wanted)
        assert abs(scores[found] - wanted) == min(abs(s - wanted) for s in scores.values())
    assert list_of(large, run=None).nearest(0.5) is None


def test_tags_go_on_many_and_come_off_again_with_one_event_each(large):
    ids = every_page(list_of(large, Query(sort="added")), 50)[:6]
    assert cases.change_tag(large, "large", ids, "  look   again ", "ann") == 6
    assert cases.change_tag(large, "large", ids, "look again", "ann") == 0
    assert cases.change_tag(large, "elsewhere", ids, "look again", "ann", remove=True) == 0
    assert {"tag": "look again", "cases": 6} in cases.tags_of_study(large, "large", ("test",))
    rows = {r["id"]: r for r in list_of(large, Query(tag="look again")).page(None, 50)["rows"]}
    assert set(rows) == set(ids)
    assert all(set(r["tags"]) - set(r["kinds"]) == {"look again"} for r in rows.values()), "odd came with the import"
    assert cases.change_tag(large, "large", ids[:2], "look again", "ben", remove=True) == 2
    events = large.query("SELECT kind, who, after FROM events WHERE kind IN ('tag', 'untag') ORDER BY id")
    assert [(e["kind"], e["who"], len(json.loads(e["after"])["cases"])) for e in events] == [
        ("tag", "ann", 6), ("untag", "ben", 2),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no comma"):
        cases.change_tag(large, "large", ids, "a, b", "ann")


# Which cases to mark next: by doubt and novelty, a fifth at random, never those that were learnt from.


def test_doubt_and_novelty_count_by_rank_and_every_fifth_is_drawn():
    unsure = np.array([0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.0])
    novelty = np.array([8, 1, 9, 2, 3, 4, 5, 6, 7, 0]) * 1000.0
    order, words = ordered(unsure, novelty)
    assert sorted(order) == list(range(10)) and order[0] == 0, "the scale of a measure does not matter"
    assert [place for place, why in enumerate(words, 1) if why == WORDS["chance"]] == [5, 10]
    assert words[order.tolist().index(2)] in (WORDS["novelty"], WORDS["chance"])
    assert words[0] == WORDS["unsure"]
    other = [ordered(unsure, novelty, seed)[0][4] for seed in range(20)]
    assert len(set(other)) > 3, "by chance"
    assert (ordered(unsure, novelty)[0] == order).all(), "the same for a seed"
    assert not len(ordered(np.zeros(0), np.zeros(0))[0])


def test_the_worklist_has_them_in_that_order_with_a_word_why(room):
    store, run = room
    assert scoring.keep_order(store, run) == 0, "it has not learnt from marks"
    usual = [row["id"] for row in list_of(store, Query(), study=STUDY, run=run).page()["rows"]]
    fallen = list_of(store, Query(sort="teaches"), study=STUDY, run=run).page()["rows"]
    assert [row["id"] for row in fallen] == usual, "by score until something was learnt"

    learnt = add_readings(store, "room", "learnt", 5)
    cases = [r["id"] for r in store.query("SELECT id FROM cases WHERE study = 'room' AND split = 'test' ORDER BY id")]
    config = json.dumps({"marks": {"cases": cases[:1], "masks": [1]}})
    store.execute("UPDATE runs SET config = ? WHERE id = ?", [config, learnt])
    for number, case in enumerate(cases):
        extra = json.dumps({"unsure": number / 100, "novelty": float(number % 3)})
        store.execute("UPDATE readings SET extra = ? WHERE run = ? AND case_id = ?", [extra, learnt, case])
    assert scoring.keep_order(store, learnt) == len(cases) - 1
    want, words = ordered(np.arange(1, len(cases)) / 100, np.arange(1, len(cases)) % 3, zlib.crc32(learnt.encode()))
    rows = list_of(store, Query(sort="teaches"), study=STUDY, run=learnt).page()["rows"]
    assert [row["id"] for row in rows] == [cases[1 + i] for i in want] + cases[:1]
    assert [row["why"] for row in rows] == [*words, ""]
    again = scoring.keep_order(store, learnt)
    assert again == len(cases) - 1, "anew, not twice"
    store.execute("DELETE FROM runs WHERE id = ?", [learnt])
    assert not store.query("SELECT * FROM next_marks WHERE run = ?", [learnt])

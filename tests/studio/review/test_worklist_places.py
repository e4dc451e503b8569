"""Places in the worklist against the pages themselves; the spread of scores; the order by decision; tags."""

import json

import pytest

from core.studio.review import cases, sessions, worklist
from core.studio.review.worklist import Query
from tests.studio.review.conftest import LARGE, decide, every_page, list_of
from tests.studio.review.test_worklist_queries import _statements


@pytest.mark.parametrize("sort", worklist.SORTS)
@pytest.mark.parametrize("down", [True, False])
def test_a_case_stands_where_the_pages_have_it(large, sort, down):
    for filters in ({}, {"decision": "read"}, {"tag": "odd"}, {"label": "unknown"}, {"label": "abnormal"}):
        query = Query(sort=sort, descending=down, **filters)
        ids = every_page(list_of(large, query), 50)
        assert list_of(large, query).total() == len(ids)
        assert [list_of(large, query).place(case) for case in ids[::9]] == list(range(len(ids)))[::9]


def test_no_count_of_places_sorts_or_scans_a_table(large):
    for sort in worklist.SORTS:
        query = Query(sort=sort, label="unknown")
        acts = [
            lambda q=query: list_of(large, q).place(41),
            lambda q=query: list_of(large, q).total(),
            lambda q=query: list_of(large, q).nearest(0.4),
            lambda q=query: list_of(large, q).distribution(),
        ]
        for act in acts:
            for statement in _statements(large, act):
                plan = [r["detail"] for r in large.query(f"EXPLAIN QUERY PLAN {statement}")]
                scanned = [line for line in plan if line.startswith("SCAN") and "SCAN (" not in line]
                assert not scanned and not any("TEMP B-TREE" in line for line in plan), (statement, plan)


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


def test_a_blind_reader_learns_nothing_of_the_scores(large):
    sessions.set_blind(large, "large", True, "root")
    query = Query(label="unknown", tag="odd")
    assert list_of(large, query, "zoe").distribution() is None and list_of(large, query, "zoe").nearest(0.5) is None
    assert list_of(large, query, "zoe").total() == LARGE, "filters by label and tag are passed over"
    row = list_of(large, query, "zoe").page(None, 1)["rows"][0]
    assert not {"map", "tags", "kinds", "score", "percentile", "flagged"} & set(row)
    decide(large, row["id"], "zoe", "normal")
    assert {"map", "tags", "kinds"} <= set(list_of(large, query, "zoe").page(None, 1)["rows"][0])


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

"""The worklist's pages against a plain sort in Python; blind reading; counts; neighbours."""

import dataclasses

import pytest

from core.studio.review import cases, decisions, sessions, worklist
from core.studio.review.people import add_reader
from core.studio.review.worklist import Query
from tests.studio.review.conftest import LARGE, STUDY, asks, decide, every_page, list_of

pytestmark = pytest.mark.slow


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
    query = Query(sort=sort, descending=descending, **filters)
    expected = _plain(large, query)
    assert every_page(list_of(large, query), 10) == expected
    assert every_page(list_of(large, query), 10, backwards=True) == expected[::-1]
    for number in (1, 9, 40):
        if number < len(expected):
            after = list_of(large, query).position(number)
            assert [r["id"] for r in list_of(large, query).page(after, 3)["rows"]] == expected[number : number + 3]


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


def test_the_disagreement_order_holds_only_cases_on_which_readers_differ(large):
    rows = list_of(large, Query(sort="disagreement")).page()["rows"]
    said = {}
    for r in large.query("SELECT case_id, reader, decision FROM reviews"):
        said.setdefault(r["case_id"], set()).add(r["decision"])
    assert {r["id"] for r in rows} == {i for i, words in said.items() if len(words) > 1}


def test_a_line_of_sql_in_the_text_is_text(large):
    assert list_of(large, Query(text="%' OR 1=1 --")).page()["rows"] == []
    with pytest.raises(ValueError, match="sorted by one of"):
        Query(sort="name; DROP TABLE cases")


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


def test_a_filter_by_what_another_reader_says_otherwise(room):
    store, _ = room
    first, second, third = [r["id"] for r in store.query("SELECT id FROM cases WHERE split = 'test' LIMIT 3")]
    for case, own, other in ((first, "normal", "abnormal"), (second, "normal", "normal"), (third, "abnormal", None)):
        decide(store, case, "ann", own)
        if other:
            decide(store, case, "bob", other)
    rows = list_of(store, Query(decision="differs"), study=STUDY, run=None).page()["rows"]
    assert [r["id"] for r in rows] == [first]


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

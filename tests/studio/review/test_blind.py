"""Blind-first: two decisions kept side by side, the first one final; who is blind and who is not."""

import pytest

from core.studio.review import cases, decisions, people, results, sessions
from core.studio.review.people import add_reader
from core.studio.review.sessions import Hidden
from core.studio.runs import bin
from tests.studio.review.conftest import HIDDEN, asks, decide


@pytest.fixture
def blinded(room):
    store, run = room
    sessions.set_blind(store, "room", True, "root")
    for name, role in (("ann", "reader"), ("chief", "adjudicator")):
        add_reader(store, name, "long enough", role)
    return store, run


def test_the_first_decision_opens_the_case_and_the_second_is_kept_beside_it(blinded):
    store, run = blinded
    case = store.one("SELECT * FROM cases WHERE label = 'abnormal'")
    before = cases.detail(asks(store, case_id=case["id"], run=run))
    assert before["blind"] and set(before) == HIDDEN
    assert case["name"] not in str(before)
    with pytest.raises(Hidden):
        asks(store, case_id=case["id"]).demand_seen()
    asks(store, "chief", case_id=case["id"]).demand_seen()
    assert decide(store, case["id"], "ann", "normal", run=run, shown={"heat": True})["stage"] == "first"
    review = decisions.history(store, case["id"])[0]
    assert review["run"] is None and review["shown"] == {"blind": True}  # whatever the page claims
    after = cases.detail(asks(store, case_id=case["id"], run=run))
    assert not after["blind"] and after["readings"][run]["percentile"] is not None and "others" not in after
    assert decide(store, case["id"], "ann", "abnormal", run=run)["stage"] == "second"
    minds = results.changed_minds(store, "room")["ann"]
    assert (minds["both"], minds["to_abnormal"], minds["for_better"], minds["for_worse"]) == (1, 1, 1, 0)
    assert decisions.undo(asks(store, "ann", study="room"))["decision"] is None
    with pytest.raises(ValueError, match="first decision stands"):
        decisions.undo(asks(store, "ann", study="room"))


def test_one_case_opened_opens_no_other_and_for_nobody_else(blinded):
    store, _ = blinded
    a, b = store.query("SELECT * FROM cases WHERE split = 'test' LIMIT 2")
    decide(store, a["id"], "ann", "normal")
    assert [asks(store, who, case_id=c["id"]).hides(c["id"]) for who, c in (("ann", a), ("ann", b), ("ben", a))] == [
        False,
        True,
        True,
    ]


def test_rights_follow_roles(blinded):
    store, _ = blinded
    assert not people.rights(store, "ann", False)["adjudicate"] and people.rights(store, "chief", False)["adjudicate"]
    assert people.rights(store, "reader", True)["administer"] and asks(store, "reader", study="room").blinded
    with pytest.raises(ValueError, match="Only an administrator"):
        people.demand(store, "chief", False, "administer")


def test_a_study_in_the_bin_is_read_by_nobody(blinded):
    store, _ = blinded
    assert sessions.reads_blind(store, "ann") and not sessions.reads_blind(store, "chief")
    bin.put_study(store, "room", "root")
    assert not sessions.reads_blind(store, "ann")
    bin.restore(store, "study", "room", "root")
    assert sessions.reads_blind(store, "ann")


def test_double_reading_is_dealt_evenly_and_topped_up(room):
    store, _ = room
    load = people.assign(store, "room", ["ann", "ben", "cleo"], "root", per_case=2)
    assert sum(load.values()) == 24 and max(load.values()) - min(load.values()) <= 1
    per_case = store.query("SELECT case_id, count(DISTINCT reader) AS n FROM assignments GROUP BY case_id")
    assert len(per_case) == 12 and all(r["n"] == 2 for r in per_case)
    assert people.assign(store, "room", ["ann", "ben", "cleo"], "root", per_case=2) == load
    with pytest.raises(ValueError, match="name at least as many"):
        people.assign(store, "room", ["ann"], "root", per_case=2)

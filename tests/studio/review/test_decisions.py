"""Decisions are added, counted once, undone and redone across cases; findings are a reader's own."""

import pytest

from core.studio.db import audit
from core.studio.db.store import NotFound
from core.studio.review import decisions
from tests.studio.review.conftest import STUDY, asks, decide


def _ids(store, count=3):
    return [c["id"] for c in store.query("SELECT id FROM cases WHERE split = 'test' ORDER BY id LIMIT ?", [count])]


def _words(store, reader="ann"):
    rows = store.query("SELECT case_id, decision FROM current_reviews WHERE reader = ? ORDER BY case_id", [reader])
    return {r["case_id"]: r["decision"] for r in rows}


def test_the_latest_counts_and_the_earlier_stays(room):
    store, _ = room
    case = _ids(store, 1)[0]
    decide(store, case, "ann", "normal")
    decide(store, case, "ann", "abnormal", comment="a second look")
    decide(store, case, "ben", "unsure")
    assert _words(store) == {case: "abnormal"} and _words(store, "ben") == {case: "unsure"}
    said = "SELECT decision FROM reviews WHERE case_id = ? AND reader = 'ann' ORDER BY id"
    assert store.columns(said, [case])[0] == ("normal", "abnormal")
    votes = store.one("SELECT * FROM case_votes WHERE case_id = ?", [case])
    assert (votes["readers"], votes["abnormal"], votes["unsure"], votes["disagreement"]) == (2, 1, 1, 0.5)


def test_undo_and_redo_go_back_and_forth(room):
    store, _ = room
    a, b, c = _ids(store)
    decide(store, a, "ann", "normal")
    decide(store, b, "ann", "abnormal")
    decide(store, a, "ann", "unsure")
    assert decisions.undo(asks(store, "ann", study="room"))["case"] == a and _words(store) == {
        a: "normal",
        b: "abnormal",
    }
    assert decisions.undo(asks(store, "ann", study="room"))["case"] == b and _words(store) == {a: "normal"}
    assert (
        decisions.redo(asks(store, "ann", study="room"))["case"] == b
        and decisions.redo(asks(store, "ann", study="room"))["case"] == a
    )
    assert _words(store) == {a: "unsure", b: "abnormal"} and decisions.redo(asks(store, "ann", study="room")) is None
    decisions.undo(asks(store, "ann", study="room"))
    decide(store, c, "ann", "normal")
    assert decisions.redo(asks(store, "ann", study="room")) is None  # a new decision closes the way forward
    for _ in range(3):
        assert decisions.undo(asks(store, "ann", study="room"))
    assert decisions.undo(asks(store, "ann", study="room")) is None and _words(store) == {}
    assert store.one("SELECT count(*) AS n FROM reviews")["n"] == 4 and audit.verify(store)["ok"]


def test_undo_is_the_readers_own(room):
    store, _ = room
    case = _ids(store, 1)[0]
    decide(store, case, "ann", "normal")
    assert decisions.undo(asks(store, "ben", study="room")) is None and _words(store) == {case: "normal"}


def test_the_same_request_twice_is_one_decision(room):
    store, _ = room
    case = _ids(store, 1)[0]
    first = decide(store, case, "ann", "normal", token="t1")
    assert decide(store, case, "ann", "abnormal", token="t1") == first
    assert store.one("SELECT count(*) AS n FROM reviews")["n"] == 1 == audit.verify(store)["events"]
    undone = decisions.undo(asks(store, "ann", study="room"), token="t2")
    assert decisions.undo(asks(store, "ann", study="room"), token="t2") == undone


def test_a_failure_leaves_neither_review_nor_event(room, monkeypatch):
    store, _ = room
    case = _ids(store, 1)[0]
    monkeypatch.setattr(audit, "seal", lambda row: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        decide(store, case, "ann", "normal")
    assert store.one("SELECT (SELECT count(*) FROM reviews) + (SELECT count(*) FROM events) AS n")["n"] == 0


def test_mistakes_are_sentences(room):
    store, _ = room
    with pytest.raises(ValueError, match="one of normal, abnormal, unsure"):
        decide(store, _ids(store, 1)[0], "ann", "maybe")
    with pytest.raises(NotFound, match="(?i)unknown case 999"):
        decide(store, 999, "ann", "normal")


def test_a_token_belongs_to_its_reader_its_case_and_its_act(room):
    store, _ = room
    first, second = (r["id"] for r in store.query("SELECT id FROM cases WHERE split = 'test' LIMIT 2"))
    made = decide(store, first, "ann", "normal", token="t")
    assert decide(store, first, "ann", "normal", token="t") == made
    other = decide(store, second, "ann", "abnormal", token="t")
    assert other["case"] == second and other["review"] != made["review"]
    theirs = decide(store, first, "ben", "unsure", token="t")
    assert theirs["decision"] == "unsure" and theirs["review"] not in (made["review"], other["review"])
    assert decisions.undo(asks(store, "ben", study="room"), token="t")["review"] == theirs["review"]
    assert store.first("SELECT count(*) AS n FROM reviews")["n"] == 3


def test_several_findings_of_one_case_and_taking_one_back(room):
    store, _ = room
    case = store.one("SELECT id FROM cases WHERE split = 'test' ORDER BY id LIMIT 1")["id"]
    point = decisions.add_finding(asks(store, case_id=case), "polyp", box=(10.25, 20, 10.25, 20))
    box = decisions.add_finding(asks(store, "ben", case_id=case), "artefact", box=(0, 0, 72, 60))
    whole = decisions.add_finding(asks(store, case_id=case), "lesion", mask_version=1)
    found = decisions.findings_of(asks(store, study=STUDY), case)
    assert [f["id"] for f in found] == [point, box, whole]
    assert [f["box"] for f in found] == [[10.25, 20, 10.25, 20], [0, 0, 72, 60], None]
    with pytest.raises(NotFound):
        decisions.case_of_finding(store, box, "ann")
    with pytest.raises(NotFound):
        decisions.remove_finding(asks(store, case_id=case), box)
    assert decisions.case_of_finding(store, point, "ann") == case
    decisions.remove_finding(asks(store, case_id=case), point)
    assert [f["label"] for f in decisions.findings_of(asks(store, study=STUDY), case)] == ["artefact", "lesion"]
    kinds = [r["kind"] for r in store.query("SELECT kind FROM events ORDER BY id DESC LIMIT 2")]
    assert kinds == ["finding-removed", "finding"] and audit.verify(store)["ok"]


@pytest.mark.parametrize("box", [(-1, 0, 5, 5), (5, 5, 4, 6), (0, 0, 73, 5), (0, 0, 5, 61)])
def test_a_place_outside_the_image_is_refused(room, box):
    store, _ = room
    case = store.one("SELECT id FROM cases LIMIT 1")["id"]
    with pytest.raises(ValueError, match="inside the image"):
        decisions.add_finding(asks(store, case_id=case), "polyp", box=box)
    assert decisions.findings_of(asks(store, study=STUDY), case) == []

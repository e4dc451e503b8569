"""The audit trail refuses changes, and shows those made around it."""

import json
import sqlite3

import pytest

from core.studio.db import audit
from core.studio.db.store import Store
from tests.studio.review.conftest import decide, save_mask


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET who = 'somebody' WHERE id = 1",
        "DELETE FROM events WHERE id = 2",
        "DELETE FROM events",
        "INSERT OR REPLACE INTO events SELECT 1, at, 'x', kind, study, case_id, before, after, shown, seconds, "
        "previous, 'f' FROM events WHERE id = 2",
        "UPDATE reviews SET decision = 'normal'",
        "UPDATE reviews SET comment = 'x'",
        "DELETE FROM reviews",
        "UPDATE lesion_masks SET note = 'x'",
    ],
)
def test_nothing_is_rewritten(room, statement):
    store, run = room
    for case in store.query("SELECT id FROM cases WHERE split = 'test' LIMIT 3"):
        decide(store, case["id"], "ann", "abnormal", run=run)
    with pytest.raises(sqlite3.IntegrityError, match="never"):
        store.execute(statement)
    assert audit.verify(store)["ok"]


def _decided(store: Store, count: int = 4) -> list[int]:
    ids = [c["id"] for c in store.query("SELECT id FROM cases WHERE split = 'test' ORDER BY id LIMIT ?", [count])]
    for i in ids:
        decide(store, i, "ann", "abnormal", comment="näher ansehen", seconds=2.5, shown={"heat": True})
    return ids


@pytest.mark.parametrize(
    ("tampering", "problem"),
    [
        (["DROP TRIGGER events_no_update", "UPDATE events SET who = 'eve' WHERE id = 2"], "event 2 was altered"),
        (["DROP TRIGGER events_no_delete", "DELETE FROM events WHERE id = 2"], "event 2 is missing"),
        (["DROP TRIGGER events_no_delete", "DELETE FROM events WHERE id = 4"], "has no event"),
        (
            ["DROP TRIGGER reviews_said_once", "UPDATE reviews SET decision = 'normal' WHERE id = 3"],
            "review 3 differs",
        ),
        (["DROP TRIGGER reviews_no_delete", "DELETE FROM reviews WHERE id = 1"], "review 1 is missing"),
    ],
)
def test_changes_around_the_triggers_are_found(room, tampering, problem):
    store, _ = room
    _decided(store)
    assert audit.verify(store) == {**audit.verify(store), "ok": True, "events": 4, "problems": []}
    for statement in tampering:
        store.execute(statement)
    found = audit.verify(store)
    assert not found["ok"] and any(problem in p for p in found["problems"])


def test_an_altered_mask_is_named(room):
    import numpy as np

    store, _ = room
    case = store.one("SELECT id FROM cases WHERE split = 'test'")["id"]
    save_mask(store, case, np.ones((60, 72)), "ann")
    store.execute("DROP TRIGGER lesion_masks_kept")
    store.execute("UPDATE lesion_masks SET png = x'00' WHERE source = 'hand'")
    assert "altered" in audit.verify(store)["problems"][0]


def test_the_seal_is_over_every_column(room):
    store, _ = room
    _decided(store, 1)
    row = store.one("SELECT * FROM events")
    for column in audit.SEALED:
        assert audit.seal({**row, column: "other"}) != row["hash"], column


def test_the_trail_names_who_when_from_to_and_what_was_shown(room):
    store, _ = room
    case = _decided(store, 1)[0]
    decide(store, case, "ann", "normal", seconds=1.0, shown={"run": "r", "threshold": 0.4, "heat": False})
    event = audit.trail(store, case_id=case)[0]
    assert (event["who"], event["kind"], event["before"], event["after"]["decision"]) == (
        "ann",
        "decision",
        "abnormal",
        "normal",
    )
    assert event["shown"] == {"run": "r", "threshold": 0.4, "heat": False} and event["seconds"] == 1.0


def test_the_trail_is_paged_and_filtered(room):
    store, _ = room
    for n in range(7):
        audit.record(store, "ann" if n % 2 else "ben", "note", study="room" if n < 5 else None, after=n)
    first = audit.trail(store, limit=3)
    assert [e["after"] for e in first] == [6, 5, 4]
    assert [e["after"] for e in audit.trail(store, limit=3, before=first[-1]["id"])] == [3, 2, 1]
    assert [e["after"] for e in audit.trail(store, who="ann")] == [5, 3, 1]
    assert [e["after"] for e in audit.trail(store, "room", kind="note", who="ben")] == [4, 2, 0]
    assert audit.trail(store, kind="decision") == []
    day = first[0]["at"][:10]
    assert len(audit.trail(store, since=day, until=day)) == 7
    assert audit.trail(store, since=f"{int(day[:4]) + 1}-01-01") == [] == audit.trail(store, until="2000-01-01")
    assert audit.values(store) == {"kinds": ["note"], "people": ["ann", "ben"], "studies": ["room"]}


@pytest.mark.parametrize(
    "value", ["Ada Smith", ["Ada Smith"], {"note": "Ada Smith"}, {"Ada Smith": 1}, {"a": [{"b": "Ada Smith"}]}]
)
def test_record_keeps_no_words_and_trail_spells_those_that_still_stand_somewhere(store, value):
    audit.record(store, "root", "root", before=value, after=value, shown={"x": value})
    assert "Ada" not in str(store.query("SELECT * FROM events")) and audit.verify(store)["ok"]
    assert audit.ERASED in str(audit.trail(store)[0]["after"])
    store.execute("INSERT INTO roots (folder, named, by) VALUES ('Ada Smith', '', '')")
    assert audit.trail(store)[0]["after"] == value


def test_record_keeps_ids_kinds_and_hashes(store):
    after = {"run": "r1", "decision": "normal", "sha256": "ab", "reader": "ann", "n": 3, "on": True, "none": None}
    audit.record(store, "root", "note", after=after)
    assert json.loads(store.first("SELECT after FROM events")["after"]) == after


def test_trail_joins_the_comment_of_a_decision_which_its_event_does_not_hold(room):
    store, _ = room
    _decided(store, 1)
    assert "näher" not in str(store.query("SELECT * FROM events"))
    assert audit.trail(store)[0]["after"]["comment"] == "näher ansehen"
    store.execute("DROP TRIGGER reviews_said_once")
    store.execute("UPDATE reviews SET comment = 'x'")
    assert "differs from its event" in audit.verify(store)["problems"][0]

"""Reading sessions: their order, what counts as read in them, blindness, names, and the summary."""

from __future__ import annotations

import pytest

from core.studio.db.store import NotFound
from core.studio.review import cases, decisions, people, results, session_report, sessions
from core.studio.review.people import add_reader
from core.studio.review.sessions import Hidden, name_of, session_names
from core.studio.review.worklist import Query, Worklist
from core.studio.runs import bin
from tests.studio.review.conftest import HIDDEN, STUDY, asks, decide


def cases_of(store) -> list[int]:
    return [c["id"] for c in store.query("SELECT id FROM cases WHERE split = 'test' ORDER BY id")]


def query(store, run, **values):
    return Worklist(asks(store, study=STUDY, run=run), Query(**values))


def test_a_session_has_its_own_order_and_its_own_decisions(room):
    store, run = room
    ids = cases_of(store)
    decide(store, ids[0], "ann", "abnormal")
    order = [ids[3], ids[0], ids[5]]
    sessions.start_session(store, STUDY, "ann", order, blind=False, neutral=False, run=run)
    assert [r["id"] for r in query(store, run).page()["rows"]] == order
    assert [r["decision"] for r in query(store, run).page()["rows"]] == [None, None, None], (
        "what was said before is not"
    )
    assert query(store, run).counts() == {"total": 3, "read": 0, "unread": 3, "normal": 0, "abnormal": 0, "unsure": 0}
    decide(store, ids[0], "ann", "normal")
    assert query(store, run).counts()["normal"] == 1
    assert query(store, run, decision="unread").neighbour(None, count=9) == [ids[3], ids[5]]
    assert query(store, run).neighbour(ids[0]) == [ids[5]]
    assert query(store, run).neighbour(ids[0], backwards=True) == [ids[3]]
    assert decisions.undo(asks(store, "ann", study="room"))["decision"] == "abnormal"
    assert decisions.undo(asks(store, "ann", study="room")) is None, "what came before the session is not undone in it"
    assert len(Worklist(asks(store, "ben", study=STUDY, run=run), Query()).page()["rows"]) == len(ids)
    sessions.end_session(store, "ann")
    assert len(query(store, run).page()["rows"]) == len(ids)


def test_a_blind_session_hides_until_the_decision_and_from_nobody_else(room):
    store, run = room
    ids = cases_of(store)
    decide(store, ids[0], "ann", "abnormal")
    first = sessions.start_session(store, STUDY, "ann", ids, run=run)
    hides = lambda who: asks(store, who, case_id=ids[0]).hides(ids[0])  # noqa: E731
    assert hides("ann") and not hides("ben")
    rows = query(store, run).page()["rows"]
    assert not any({"score", "percentile", "flagged"} & set(r) for r in rows)
    said = [decide(store, ids[0], "ann", word)["stage"] for word in ("normal", "abnormal")]
    assert said == ["first", "second"] and not hides("ann")
    assert sessions.session_status(store, "ann") == {"blind": [STUDY], "session": {"id": first, "study": STUDY}}
    second = sessions.start_session(store, STUDY, "ann", ids[:2], run=run)
    assert hides("ann"), "a new session begins blind again"
    assert sessions.get_session(store, first, "ann")["ended"] and second != first
    sessions.end_session(store, "ann")
    assert sessions.session_status(store, "ann") == {"blind": [], "session": None}
    assert not hides("ann")


def test_names_and_numbers_are_made_anew_for_each_session(room):
    store, run = room
    ids = cases_of(store)
    seen = []
    for _ in range(2):
        sessions.start_session(store, STUDY, "ann", ids, run=run)
        names = asks(store, study=STUDY).names
        seen.append([(names.number(i), names.name(i)) for i in ids])
        assert asks(store, number=names.number(ids[0])).asked_case["id"] == ids[0]
    assert not set(seen[0]) & set(seen[1])
    sessions.start_session(store, STUDY, "ann", ids, blind=False, neutral=True, run=run)
    context = asks(store, study=STUDY)
    assert context.names.covers and not context.blinded
    sessions.start_session(store, STUDY, "ann", ids, blind=False, neutral=False, run=run)
    assert not asks(store, study=STUDY).names.covers


def test_a_session_that_is_over_keeps_its_names(room):
    store, run = room
    ids = cases_of(store)
    held = sessions.start_session(store, STUDY, "ann", ids, run=run)
    before = asks(store, study=STUDY).names.name(ids[0])
    sessions.end_session(store, "ann")
    assert name_of(session_names(sessions.get_session(store, held, "ann")), ids[0]) == before, "as the report prints it"


def test_cases_are_chosen_and_shuffled(room):
    store, run = room
    ids = cases_of(store)
    decide(store, ids[0], "ann", "normal")
    sizes = {c["name"]: c["cases"] for c in session_report.available(asks(store, study=STUDY, run=run))}
    assert sizes["all"] == len(ids) and sizes["unread"] == len(ids) - 1 and sizes["assigned"] == 0
    chosen = [session_report.chosen(asks(store, study=STUDY, run=run), "all", 0, True, seed) for seed in range(4)]
    assert all(sorted(c) == ids for c in chosen) and len({tuple(c) for c in chosen}) > 1
    assert len(session_report.chosen(asks(store, study=STUDY, run=run), "unread", 3, True, 0)) == 3
    plain = session_report.chosen(asks(store, study=STUDY, run=run), "all", 4, False, 0)
    assert plain == query(store, run).neighbour(None, count=4)
    with pytest.raises(ValueError, match="are one of"):
        session_report.chosen(asks(store, study=STUDY, run=run), "best", 0, True, 0)
    with pytest.raises(ValueError, match="no case"):
        sessions.start_session(store, STUDY, "ann", [])


def test_the_summary_counts_the_session_alone(room):
    store, run = room
    ids = cases_of(store)
    truth = {c["id"]: c["label"] for c in store.query("SELECT id, label FROM cases WHERE split = 'test'")}
    decide(store, ids[0], "ann", "unsure", seconds=100)
    decide(store, ids[1], "ben", truth[ids[1]])
    number = sessions.start_session(store, STUDY, "ann", ids[:-1], run=run)
    for i in ids[:-2]:
        decide(store, i, "ann", truth[i], seconds=2)
    wrong = {"normal": "abnormal", "abnormal": "normal"}[truth[ids[0]]]
    decide(store, ids[0], "ann", wrong, seconds=1)
    sessions.end_session(store, "ann")
    decide(store, ids[2], "ann", "unsure", seconds=50)
    found = session_report.summary(store, sessions.get_session(store, number, "ann"))
    assert (found["cases"], found["read"], found["changed"]) == (len(ids) - 1, len(ids) - 2, 1)
    assert found["seconds"]["median"] == 2 and found["seconds"]["total"] == 2 * (len(ids) - 2) + 1
    point = found["point"]
    assert point["fp"] + point["fn"] == 1 and point["tp"] + point["tn"] == len(ids) - 3
    assert sum(found["detector"][k] for k in ("tp", "fp", "tn", "fn")) == len(ids) - 2
    by = {a["with"]: a for a in found["agreement"]}
    assert by["ben"]["n"] == 1 and by["the detector's flags"]["n"] == len(ids) - 2
    with pytest.raises(NotFound):
        sessions.get_session(store, number, "ben")


@pytest.fixture
def ada(store):
    people.add_reader(store, "Ada", "a long password")
    return store


def test_a_session_is_kept_by_its_hash_alone(ada):
    secret = people.start_sign_in(ada, "Ada", 1)
    assert people.reader_of_sign_in(ada, secret) == "Ada"
    kept = ada.one("SELECT * FROM sessions")
    assert kept["reader"] == "Ada" and secret not in kept.values()
    assert people.reader_of_sign_in(ada, kept["hash"]) is None, "what the database holds lets nobody in"


def test_a_session_ends_in_time_and_is_then_removed(ada):
    secret = people.start_sign_in(ada, "Ada", -1)
    assert people.reader_of_sign_in(ada, secret) is None
    people.start_sign_in(ada, "Ada", 1)
    assert len(ada.query("SELECT * FROM sessions")) == 1


def test_signing_out_ends_one_session_and_a_new_password_ends_all(ada):
    first, second, third = (people.start_sign_in(ada, "Ada", 1) for _ in range(3))
    people.end_sign_in(ada, first)
    assert [people.reader_of_sign_in(ada, s) for s in (first, second, third)] == [None, "Ada", "Ada"]
    people.add_reader(ada, "Ada", "another password")
    assert [people.reader_of_sign_in(ada, s) for s in (second, third)] == [None, None]


def test_a_removed_account_has_no_session(ada):
    people.add_reader(ada, "Ben", "a long password", "administrator")
    ours, theirs = people.start_sign_in(ada, "Ada", 1), people.start_sign_in(ada, "Ben", 1)
    people.remove_reader(ada, "Ben")
    assert people.reader_of_sign_in(ada, theirs) is None and people.reader_of_sign_in(ada, ours) == "Ada"
    late = people.start_sign_in(ada, "Ben", 1)
    assert people.reader_of_sign_in(ada, late) is None, "not even one that was started after the removal"


# Blind first: two decisions stored side by side, the first one final; who is blind and who is not.


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
    review = store.first("SELECT * FROM reviews WHERE case_id = ?", [case["id"]])
    assert review["run"] is None and review["shown"] == '{"blind": true}'  # whatever the page claims
    after = cases.detail(asks(store, case_id=case["id"], run=run))
    assert not after["blind"] and after["readings"][run]["percentile"] is not None and "others" not in after
    assert decide(store, case["id"], "ann", "abnormal", run=run)["stage"] == "second"
    minds = results.changed_minds(store, "room")["ann"]
    assert (minds["both"], minds["to_abnormal"], minds["for_better"], minds["for_worse"]) == (1, 1, 1, 0)
    assert decisions.undo(asks(store, "ann", study="room"))["decision"] is None
    with pytest.raises(ValueError, match="first decision cannot be undone"):
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

"""Planted lesions: repeatable by a seed, kept apart from cases and reviews, revealed at the end."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest

from core.studio.db import audit, opening
from core.studio.ingest import studies
from core.studio.ingest.originals import image_of
from core.studio.review import cases, decisions, planted, session_report, sessions
from core.studio.review.context import RequestContext
from core.studio.review.exports.tables import export_csv
from core.studio.review.worklist import Query, Worklist
from core.studio.runs.readings import pack_map, unpack_map
from tests.studio.review.conftest import STUDY, add_readings, asks, decide, draw_folder

OWN = {"planted_lesions", "planted_donors", "planted_cases", "planted_reads", "answered"}


def read_by_hand(store, run, images, roi, device="auto"):
    """Stands for the run's detector, which `add_readings` has none of: brighter images score higher."""
    values = images.mean((1, 2, 3)) / 255
    names = ("score", "score_roi", "percentile", "percentile_roi")
    return [
        {"run": run, "case_id": 0, "created": "now", **dict.fromkeys(names, float(v)), "flagged": bool(v > 0.5),
         "flagged_roi": bool(v > 0.5), "extra": "{}", **pack_map(np.full((4, 4), v) + np.eye(4))}
        for v in values
    ]  # fmt: skip


@pytest.fixture
def plantable(tmp_path, monkeypatch):
    """(store, run): a scored study of 12 held-out normals; its lesions can be planted."""
    monkeypatch.setattr(planted, "readings_of", read_by_hand)
    monkeypatch.setattr(planted, "size_of", lambda store, run: 32)
    store = opening.open(str(tmp_path / "home"))
    studies.import_study(store, STUDY, draw_folder(tmp_path / "images", 24, 6, 6), copy=True)
    held = "SELECT id FROM cases WHERE study = ? AND split = 'train' ORDER BY id LIMIT 12"
    store.execute(f"UPDATE cases SET split = 'holdout' WHERE id IN ({held})", [STUDY])
    yield store, add_readings(store, STUDY, "padim")
    store.close()


def cases_of(store) -> list[int]:
    return [
        c["id"] for c in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test' ORDER BY id", [STUDY])
    ]


def begin(store, run, per_hundred=50, seed=3, agreed=True, reader="ann"):
    """A blind session of all test cases, with lesions among them; its number, and {case: lesion}."""
    planted.switch(store, STUDY, per_hundred, seed, "root")
    planted.make(store, STUDY)
    planted.agree(store, STUDY, reader, agreed)
    context = asks(store, reader, study=STUDY)
    lesions = planted.drawn(context, cases_of(store))
    order = planted.mixed(cases_of(store), lesions, 0)
    number = sessions.start_session(store, STUDY, reader, order, run=run, planted=lesions)
    return number, lesions


def contents(store) -> dict[str, list]:
    """All rows of all tables, but those of planted lesions themselves and the times."""
    tables = [r["name"] for r in store.query("SELECT name FROM sqlite_master WHERE type = 'table'")]
    times = ("created", "at", "hash", "previous", "secret", "seconds", "ended", "added", "position")
    return {
        name: sorted(
            json.dumps({k: v for k, v in row.items() if k not in times}, default=repr, sort_keys=True)
            for row in store.query(f'SELECT * FROM "{name}"')
        )
        for name in tables
        if name not in OWN and not name.startswith("neutral")
    }


@pytest.mark.long
def test_lesions_are_planted_again_by_their_seed_and_seen_where_they_are(plantable):
    store, run = plantable
    planted.switch(store, STUDY, 20, 3, "root")
    number = planted.make(store, STUDY)
    rows = store.query("SELECT * FROM planted_lesions ORDER BY case_id")
    assert number == len(rows) >= 10 and len({(r["size"], r["contrast"]) for r in rows}) == 6
    held = store.query("SELECT id FROM cases WHERE split = 'holdout' AND label = 'normal'")
    assert {r["case_id"] for r in rows} <= {c["id"] for c in held} and len({r["case_id"] for r in rows}) == len(rows)
    for row in rows:
        case = store.first("SELECT * FROM cases WHERE id = ?", [row["case_id"]])
        plain = image_of(case)
        shown = image_of({**case, "patch": (0, row["x"], row["y"], row["patch"])})
        changed = (shown != plain).any(2)
        ys, xs = np.nonzero(changed)
        assert [xs.min(), ys.min(), np.ptp(xs) + 1, np.ptp(ys) + 1] == [row[k] for k in ("x", "y", "width", "height")]
        assert np.ptp(xs) + 1 <= 72 * (row["size"] + 0.1), "no larger than its size says"
    for seed, same in ((3, True), (4, False)):
        store.execute("DELETE FROM planted_lesions")
        planted.switch(store, STUDY, 20, seed, "root")
        planted.make(store, STUDY)
        again = store.query("SELECT * FROM planted_lesions ORDER BY case_id")
        key = ("case_id", "size", "contrast", "x", "y", "patch")
        assert ([[r[k] for k in key] for r in again] == [[r[k] for k in key] for r in rows]) is same


@pytest.mark.slow
def test_nothing_but_their_own_tables_differs_with_and_without(plantable, tmp_path):
    """The same decisions in two copies of a home, with lesions among the cases and without."""
    first, run = plantable
    begin(first, run)
    sessions.end_session(first, "ann")
    first.execute("DELETE FROM planted_cases")  # the same images once more
    first.close()
    shutil.copytree(tmp_path / "home", tmp_path / "other")
    rows, sheets, exports = [], [], []
    for home, with_lesions in (("home", True), ("other", False)):
        store = opening.open(str(tmp_path / home))
        drawn = planted.drawn(asks(store, "ann", study=STUDY), cases_of(store))
        lesions = drawn if with_lesions else {}
        order = planted.mixed(cases_of(store), lesions, 0)
        number = sessions.start_session(store, STUDY, "ann", order, run=run, planted=lesions)
        listed = [r["id"] for r in Worklist(asks(store, "ann", study=STUDY, run=run), Query()).page()["rows"]]
        assert listed == order and len(order) == len(cases_of(store)) + len(lesions) and drawn
        for case in order:
            word = decisions.DECISIONS[case % 3]
            assert decide(store, case, "ann", word, comment="seen")["stage"] == "first"
            assert decide(store, case, "ann", "abnormal")["stage"] == "second"
        reads = store.query("SELECT case_id FROM planted_reads")
        assert len(reads) == 2 * len(lesions) and {r["case_id"] for r in reads} == set(lesions)
        sessions.end_session(store, "ann")
        sheets.append(session_report.sheet(store, sessions.get_session(store, number, "ann"), False))
        export_csv(store, STUDY, tmp_path / f"{home}.csv", "root", keep_names=True)
        exports.append(re.sub(r"\d{4}-\d\d-\d\dT[^,\n]*", "", (tmp_path / f"{home}.csv").read_text()))
        assert audit.verify(store)["ok"]
        rows.append(contents(store))
        store.close()
    assert rows[0].keys() == rows[1].keys()
    for name in rows[0]:
        assert rows[0][name] == rows[1][name], name
    assert exports[0] == exports[1] and exports[0].count("abnormal") >= len(sheets[0]["rows"])
    figures = [{k: v for k, v in sheet.items() if k not in ("seconds", "rows")} for sheet in sheets]
    assert figures[0] == figures[1] and figures[0]["read"] == figures[0]["cases"] == len(sheets[0]["rows"])


@pytest.mark.slow
def test_a_planted_case_answers_as_every_other_one_and_is_revealed_at_the_end(plantable):
    store, run = plantable
    number, lesions = begin(store, run)
    plain = cases_of(store)[0]
    case = next(iter(lesions))
    for step in ("before", "first", "second"):
        if step != "before":
            for one in (plain, case):
                answer = decide(store, one, "ann", "abnormal" if step == "second" else "normal", run=run)
                assert answer["stage"] == step and set(answer) == {"review", "case", "stage", "decision"}
        details = [cases.detail(asks(store, "ann", case_id=one, run=run)) for one in (plain, case)]
        assert details[0].keys() == details[1].keys()
        for name in ("label", "split", "tags", "masks", "findings", "name", "blind"):
            assert details[0].get(name) == details[1].get(name), name
        assert [m["stage"] for m in details[0]["mine"]] == [m["stage"] for m in details[1]["mine"]]
        listed = {r["id"]: r for r in Worklist(asks(store, "ann", study=STUDY, run=run), Query()).page()["rows"]}
        assert listed[plain].keys() == listed[case].keys()
        assert listed[plain]["decision"] == listed[case]["decision"]
        assert planted.of_session(store, number)["lesions"] == []
    row = store.first("SELECT * FROM planted_lesions WHERE id = ?", [lesions[case]])
    reading = json.loads(row["reading"])
    shown = details[1]["readings"]
    assert list(shown) == list(details[0]["readings"]) == [run] and shown[run]["score"] == reading["score_roi"]
    context = asks(store, "ann", case_id=case, run=run)
    assert unpack_map(cases.map_of(context)).shape == (4, 4)
    assert context.asked_case["patch"][3] == row["patch"]
    assert Worklist(asks(store, "ann", study=STUDY, run=run), Query()).counts()["read"] == 2
    assert case not in Worklist(asks(store, "ann", study=STUDY, run=run), Query(decision="unread")).neighbour(
        None, count=99
    )
    for act in (decisions.undo, decisions.redo):
        with pytest.raises(ValueError, match="stand"):
            act(asks(store, "ann", study=STUDY))
    for demand in (RequestContext.demand_marks, RequestContext.demand_open, RequestContext.demand_stored):
        for one in (plain, case):
            with pytest.raises(sessions.Hidden):
                demand(asks(store, "ann", case_id=one))
    other = asks(store, "ben", case_id=case, run=run)
    assert "patch" not in other.asked_case and not other.plants, "only in the session of whoever reads it"
    sessions.end_session(store, "ann")
    revealed = planted.of_session(store, number)
    assert len(revealed["lesions"]) == len(lesions)
    (read,) = [r for r in revealed["lesions"] if r["decision"]]
    assert (read["first"], read["decision"], read["found"]) == ("normal", "abnormal", True)
    assert read["box"] == [row[k] for k in ("x", "y", "width", "height")] and read["size"] == row["size"]
    (kind,) = revealed["table"]
    assert (kind["images"], kind["first"]["hits"], kind["last"]["hits"]) == (1, 0, 1)
    assert kind["machine"]["hits"] == int(reading["flagged_roi"])
    assert planted.of_study(store, STUDY) == [{"reader": "ann", **kind}]


@pytest.mark.slow
def test_a_lesion_goes_with_every_case_that_it_may_hold_a_piece_of(plantable):
    """As a patient is erased; what was shown with it leaves the open list, and is not read there as a usual case."""
    store, run = plantable
    number, lesions = begin(store, run)
    case, lesion = next(iter(lesions.items()))
    donors = [r["case_id"] for r in store.query("SELECT case_id FROM planted_donors WHERE lesion = ?", [lesion])]
    assert donors and case not in donors
    donor = next(c for c in donors if c not in lesions)
    store.execute("DELETE FROM reviews")
    store.execute("DELETE FROM cases WHERE id = ?", [donor])
    assert store.one("SELECT 1 FROM planted_lesions WHERE id = ?", [lesion]) is None
    listed = "SELECT case_id FROM reading_session_cases WHERE session = ?"
    left = {r["case_id"] for r in store.query(listed, [number])}
    assert case not in left and set(cases_of(store)) <= left
    assert left - set(cases_of(store)) == {r["case_id"] for r in store.query("SELECT case_id FROM planted_cases")}


@pytest.mark.slow
def test_what_stands_against_it(plantable):
    store, run = plantable
    number, lesions = begin(store, run, agreed=False)
    assert not lesions
    events = [e["kind"] for e in store.query("SELECT kind FROM events ORDER BY id")]
    assert "planted" in events and "planted-agreed" not in events
    sessions.end_session(store, "ann")
    number, lesions = begin(store, run, per_hundred=20)
    assert len(lesions) == round(0.2 * len(cases_of(store)))
    again = planted.drawn(asks(store, "ben", study=STUDY), cases_of(store))
    assert again == {}, "ben has not agreed"
    sessions.end_session(store, "ann")
    before = set(lesions)
    number, lesions = begin(store, run, per_hundred=50)
    assert lesions and not before & set(lesions), "no image comes twice to a reader"
    sessions.end_session(store, "ann")
    planted.agree(store, STUDY, "ann", False)
    assert planted.drawn(asks(store, "ann", study=STUDY), cases_of(store)) == {}, "taken back"
    kinds = [e["kind"] for e in store.query("SELECT kind FROM events WHERE kind LIKE 'planted-%' ORDER BY id")]
    assert kinds == ["planted-agreed", "planted-withdrawn"]
    planted.agree(store, STUDY, "ann", True)
    sessions.set_blind(store, STUDY, True, "root")
    assert planted.drawn(asks(store, "ann", study=STUDY), cases_of(store)) == {}, "the study is read blind"
    with pytest.raises(ValueError, match="read blind"):
        planted.switch(store, STUDY, 10, 0, "root")
    sessions.set_blind(store, STUDY, False, "root")
    store.execute("UPDATE cases SET bits = 16 WHERE id = ?", [cases_of(store)[0]])
    with pytest.raises(ValueError, match="eight bits"):
        planted.switch(store, STUDY, 10, 0, "root")
    planted.switch(store, STUDY, 0, 0, "root")
    assert planted.drawn(asks(store, "ann", study=STUDY), cases_of(store)) == {}
    with pytest.raises(ValueError, match="switched off"):
        planted.make(store, STUDY)

"""Kappas against scikit-learn and a published example; operating points by hand."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from core.studio.review import agreement, results
from core.studio.review.decisions import DECISIONS
from core.studio.review.results import rows_of_cases, scored
from tests.studio.review.conftest import decide


@pytest.mark.parametrize("seed", range(6))
def test_cohen_is_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, 80)
    b = np.where(rng.random(80) < 0.6, a, rng.integers(0, 3, 80))
    table = np.zeros((3, 3), int)
    np.add.at(table, (a, b), 1)
    found = agreement.cohen(table)
    assert found["kappa"] == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)
    assert found["low"] < found["kappa"] < found["high"] <= 1


def test_cohens_interval_covers_as_it_should():
    rng = np.random.default_rng(1)
    p = np.array([[0.5, 0.1], [0.1, 0.3]])
    true = agreement.cohen(p * 1000)["kappa"]
    drawn = [agreement.cohen(rng.multinomial(150, p.ravel()).reshape(2, 2)) for _ in range(1500)]
    inside = np.mean([d["low"] <= true <= d["high"] for d in drawn])
    assert 0.925 < inside < 0.97


def test_cohen_has_no_value_where_chance_explains_all():
    assert agreement.cohen(np.diag([9, 0, 0]))["kappa"] is None and agreement.cohen(np.zeros((3, 3)))["n"] == 0


def test_fleiss_is_the_definition():
    # Fleiss (1971): the worked example of 10 subjects, 14 raters and 5 categories gives 0.210.
    counts = np.array(
        [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
         [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]
    )  # fmt: skip
    found = agreement.fleiss(counts)
    assert found["kappa"] == pytest.approx(0.210, abs=5e-4) and found["low"] < 0.21 < found["high"]
    with pytest.raises(ValueError, match="same number of readers"):
        agreement.fleiss(np.array([[2, 0], [1, 0]]))


def test_a_studys_agreement_and_its_disagreements(room):
    store, run = room
    ids = [c["id"] for c in store.query("SELECT id FROM cases WHERE split = 'test' ORDER BY id")]
    rng = np.random.default_rng(0)
    said = {r: rng.integers(0, 3, len(ids)) for r in ("ann", "ben", "cleo")}
    for reader, words in said.items():
        for i, w in zip(ids, words, strict=True):
            decide(store, i, reader, DECISIONS[w])
    decide(store, ids[0], "chief", "abnormal", adjudication=True)
    found = agreement.agreement(store, "room")
    assert [p["readers"] for p in found["pairs"]] == [["ann", "ben"], ["ann", "cleo"], ["ben", "cleo"]]
    for pair in found["pairs"]:
        a, b = pair["readers"]
        assert pair["kappa"] == pytest.approx(cohen_kappa_score(said[a], said[b]), abs=1e-12)
    assert found["fleiss"]["n"] == len(ids)
    differ = {d["case"] for d in found["differ"]}
    assert differ == {i for k, i in enumerate(ids) if len({w[k] for w in said.values()}) > 1}
    settled = next((d for d in found["differ"] if d["case"] == ids[0]), None)
    assert settled is None or settled["adjudication"] == {"reader": "chief", "decision": "abnormal"}


def test_names_that_no_one_can_read_are_numbers_in_results_too(room):
    store, run = room
    unnamed = "1d0b0b0c-7a7b-4a4e-9d1c-0123456789ab.jpg"
    store.execute("UPDATE cases SET name = ?", [unnamed])
    case = store.one("SELECT id FROM cases WHERE split = 'test'")["id"]
    decide(store, case, "ann", "normal")
    decide(store, case, "ben", "abnormal")
    names = [d["name"] for d in agreement.agreement(store, "room")["differ"]]
    names += [row["name"] for row in rows_of_cases(store, run, scored(store, "room", run).test)]
    assert len(names) > 2 and all(name.startswith("Case ") for name in names)


def test_operating_point_against_labels_and_against_readers(room):
    store, run = room
    cases = scored(store, "room", run).test
    found = results.operating_point(store, "room", run)
    rows = rows_of_cases(store, run, cases)
    sick = np.array([r["label"] == "abnormal" for r in rows])
    flagged = np.array([bool(r["flagged"]) for r in rows])
    assert [r["id"] for r in rows] == cases.ids.tolist() and [r["score"] for r in rows] == cases.scores.tolist()
    assert np.array_equal(sick, cases.sick) and np.array_equal(flagged, cases.flagged)
    assert (np.diff(cases.scores) <= 0).all()
    assert found["sensitivity"]["value"] == pytest.approx(flagged[sick].mean())
    assert found["specificity"]["value"] == pytest.approx(1 - flagged[~sick].mean())
    assert found["point"][1] == found["sensitivity"]["value"] and found["roc"][0] == [0, 0]
    for r in rows[:4]:
        decide(store, r["id"], "ann", "abnormal")
    decide(store, rows[5]["id"], "ann", "unsure")
    decide(store, rows[-1]["id"], "ann", "normal")
    decide(store, rows[0]["id"], "chief", "normal", adjudication=True)
    against = results.operating_point(store, "room", run, "readers")
    assert against["tp"] + against["fn"] == 3 and against["fp"] + against["tn"] == 2


def test_dice_by_size_is_the_viewers(room):
    store, run = room
    found = results.dice_by_size(store, "room", run)
    assert len(found["points"]) == 6 == sum(g["n"] for g in found["groups"])
    assert all(0 <= p["dice"] <= 1 for p in found["points"])
    sizes = [p["size"] for p in found["points"]]
    assert sizes == sorted(sizes)
    panel = results.prediction_panel(store, run, scored(store, "room", run), 5)
    assert len(panel) == 5 and panel[0]["score"] >= panel[-1]["score"]
    assert all(p["right"] == (bool(p["flagged"]) == (p["label"] == "abnormal")) for p in panel)


def test_of_many_lesions_the_same_ones_are_drawn(room, monkeypatch):
    store, run = room
    whole = results.dice_by_size(store, "room", run)
    assert whole["of"] == 6
    monkeypatch.setattr(results, "POINTS", 3)
    some = results.dice_by_size(store, "room", run)
    assert len(some["points"]) == 3 and some["of"] == 6 and some == results.dice_by_size(store, "room", run)
    assert all(point in whole["points"] for point in some["points"])
    curve = results.operating_point(store, "room", run)["roc"]
    assert len(curve) == 3 and curve[0] == [0, 0] and curve[-1] == [1, 1]


def test_the_promised_threshold_counts_the_tests_normals_alone(room):
    store, run = room
    normals = scored(store, "room", run).test
    normals = normals.where(~normals.sick)
    at = normals.scores[1]
    held = [r["id"] for r in store.query("SELECT id FROM cases WHERE study = 'room' AND split != 'test'")]
    with store.write() as db:
        db.execute("UPDATE cases SET split = 'holdout' WHERE study = 'room' AND split = 'train'")
        for case in held:
            row = {"run": run, "case_id": case, "score": at, "score_roi": at, "created": "now"}
            db["readings"].insert(
                {**row, "percentile": 0, "percentile_roi": 0, "flagged": 0, "flagged_roi": 0}, replace=True
            )
    found = results.promise(store, "room", scored(store, "room", run))
    assert (found["held"], found["normals"]) == (len(held), len(normals))
    if len(held) < found["needed"]:
        assert found["threshold"] is None and found["flagged"] == 0 and "Hold out more" in found["guarantee"]
    else:
        assert found["threshold"] == at and found["flagged"] == found["share"]["hits"] == 1

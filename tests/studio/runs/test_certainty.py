"""How sure a reading is, and its nearest training images: found by scoring, said in words, hidden while blind."""

import csv
import json

import cv2
import numpy as np
import pytest

from core.studio.ingest.studies import import_study
from core.studio.jobs.steps import Work, load_step
from core.studio.review import cases
from core.studio.review.exports.tables import export_csv
from core.studio.runs import certainty, explained, pipeline
from tests.conftest import ARCH
from tests.studio.review.conftest import asks, decide


@pytest.fixture
def scored(store, tmp_path):
    """A study of small random textures, one test image being a copy of a training image; PaDiM's run."""
    rng = np.random.default_rng(0)
    draw = lambda: cv2.resize(rng.integers(60, 200, (5, 5, 3), np.uint8), (32, 32))  # noqa: E731
    train = [draw() for _ in range(20)]
    for part, images in {"train/normal": train, "test/normal": [draw(), train[7]], "test/abnormal": [draw()]}.items():
        folder = tmp_path / "images" / part
        folder.mkdir(parents=True)
        for i, image in enumerate(images):
            image = 255 - image if "abnormal" in part else image
            cv2.imwrite(str(folder / f"{part.replace('/', '-')}-{i:02}.png"), image)
    import_study(store, "small", tmp_path / "images", copy=True)
    encoder = pipeline.create_untrained(store, "small", 32, arch=ARCH)
    fit = pipeline.create_fit(store, encoder, "padim", {"channels": 20})
    pipeline.pretrain_run(store, encoder)
    pipeline.fit_run(store, fit, "cpu")
    load_step("score")(Work(store, fit, {"device": "cpu"}))
    return fit


def _extra(store, run, case_id):
    return json.loads(store.one("SELECT extra FROM readings WHERE run = ? AND case_id = ?", [run, case_id])["extra"])


def test_scoring_says_how_steady_each_reading_is(store, scored):
    rows = store.query("SELECT r.*, c.split FROM readings r JOIN cases c ON c.id = r.case_id")
    kept = [json.loads(r["extra"])["steady"] for r in rows]
    assert len(rows) == 3 + len([r for r in rows if r["split"] == "holdout"]) > 3
    for row, steady in zip(rows, kept, strict=True):
        assert len(steady["flagged"]) == 4 and steady["sd"] >= 0 and steady["spread"] > 0
        assert steady["flagged"][0] == bool(row["flagged_roi"])
        assert steady["percentile"][0] == pytest.approx(row["percentile_roi"], abs=0.01)
    assert any(s["sd"] > 0 for s in kept)
    load_step("score")(Work(store, scored, {"device": "cpu", "steady": False}))
    assert "steady" not in _extra(store, scored, rows[0]["case_id"])


@pytest.mark.slow
def test_words_and_csv_follow_what_was_kept(store, scored, tmp_path, monkeypatch):
    case = store.one("SELECT id FROM cases WHERE split = 'test'")["id"]
    said = {"flagged": [True, False, True, True], "percentile": [96.0, 93.5, 99.0, 97.0], "sd": 0.5, "spread": 1.0}
    extra = {"steady": said, "head": 3.2, "padim": 0.4}
    store.execute("UPDATE readings SET extra = ? WHERE case_id = ?", [json.dumps(extra), case])
    shown = cases.detail(asks(store, case_id=case, run=scored))["readings"][scored]
    assert shown["steady"]["words"] == "Unsteady: flagged in 3 of 4 views (mirrored, enlarged)."
    assert "93.5 to 99.0" in shown["steady"]["more"] and not shown["steady"]["ok"]
    assert shown["members"]["words"].startswith("The detectors differ: only the lesion head")
    assert certainty.described({"steady": {**said, "flagged": [True] * 4}})["steady"]["words"].startswith("Steady")
    assert certainty.described({"head": -0.2, "padim": 0.4})["members"]["words"].startswith("Neither")
    three = certainty.described({"members": [2.0, 3.1, 0.2]})["members"]
    assert three["words"] == "2 of 3 detectors find the image unusual." and not three["ok"] and "+3.1" in three["more"]
    assert certainty.described({}) == {"steady": None, "members": None}
    decide(store, case, "ann", "normal", run=scored)
    export_csv(store, "small", tmp_path / "out.csv", "ann")
    row = next(csv.DictReader((tmp_path / "out.csv").open()))
    assert (row["steady"], row["views_flagged"], row["score_sd"]) == ("no", "3 of 4", "0.5")
    assert (row["lesion_head"], row["padim"]) == ("3.2", "0.4")
    monkeypatch.setattr(certainty, "STEADY_CASES", 2)
    assert not certainty.wanted(store, scored) and certainty.wanted(store, scored, True)


@pytest.mark.slow
def test_the_nearest_training_image_of_a_copy_is_the_original(store, scored):
    copy = store.one("SELECT id FROM cases WHERE split = 'test' AND name LIKE '%test-normal-01%'")["id"]
    original = store.one("SELECT sha256 FROM cases WHERE id = ?", [copy])["sha256"]
    twins = store.query("SELECT id, split FROM cases WHERE sha256 = ? AND id != ?", [original, copy])
    found = explained.nearest(store, scored, copy)
    assert len(found) == explained.KEEP and [f["distance"] for f in found] == sorted(f["distance"] for f in found)
    if twins[0]["split"] == "train":  # else it was held out, and is not among them
        assert found[0]["id"] == twins[0]["id"] and found[0]["distance"] == 0
    splits = {store.one("SELECT split FROM cases WHERE id = ?", [f["id"]])["split"] for f in found}
    assert splits == {"train"}
    store.execute("UPDATE readings SET extra = '{}'")  # a reading from before neighbours were kept
    assert explained.nearest(store, scored, copy) == found
    assert _extra(store, scored, copy) == {}, "an answer stores nothing"
    with pytest.raises(ValueError, match="has not scored"):
        explained.nearest(store, scored, twins[0]["id"] if twins[0]["split"] == "train" else 10**6)

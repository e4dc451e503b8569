"""The experiment of marks: who may be marked and who is tested, and its figures."""

import numpy as np
import pytest

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.base import Prediction
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.studio.report.arms import Arm
from tests.benches.experiments import marks
from tests.conftest import ARCH
from tests.engine._images import normals
from tests.engine.detectors.test_from_marks import marked

SIDE = 64


def of(images, masks, patients):
    roi = np.ones(images.shape[:3], np.uint8)
    return marks.Images(images, roi, np.zeros_like(roi) if masks is None else masks, patients)


@pytest.fixture(scope="module")
def sets():
    sick = marked(12)
    whose = np.repeat(np.arange(6), 2)
    none = np.zeros(8, int)
    return marks.Sets(
        of(normals(24, SIDE), None, np.arange(24)), of(normals(8, SIDE, 4), None, none),
        of(normals(8, SIDE, 5), None, none), of(sick.images, sick.masks, whose), True,
    )  # fmt: skip


def test_no_patient_is_marked_and_tested(sets):
    parts = list(marks.halves(sets))
    assert len(parts) == 2
    for may, test in parts:
        assert not set(sets.sick.patients[may]) & set(sets.sick.patients[test])
        assert sorted([*may, *test]) == list(range(12))
    [(small, large)] = marks.halves(sets, apart=True)
    areas = sets.sick.masks.sum((1, 2))
    assert areas[small].max() <= np.median(areas) and len(small) + len(large) == 12


def arm(detector: str, count: int, **fit):
    return Arm("an arm", detector, fit={"marks": count, **fit})


class Doubtful:
    """Stands for a detector: undecided of the first images, highest scores for the last."""

    def predict(self, images, roi):
        falling = np.arange(len(images))[::-1].astype(float)
        return Prediction(np.zeros((len(images), 4, 4), np.float32), {"unsure": falling, "novelty": falling})

    def image_score(self, prediction, roi):
        return np.arange(len(prediction))


def test_what_to_mark_next_is_asked_of_the_detector(sets):
    teaching, score = (marks._order(Doubtful(), sets.sick, order, 0) for order in marks.ORDERS)
    assert sorted(teaching) == sorted(score) == list(range(12))
    assert teaching[:4].tolist() == [0, 1, 2, 3] and score.tolist() == list(range(12))[::-1]


def test_each_step_is_ordered_by_what_has_learnt_from_the_marks_before(sets):
    asked = []

    def fitted(rows):
        asked.append(rows.tolist())
        return Doubtful()

    by_chance = marks.drawn(sets.sick, np.arange(12), 11, 0, None, fitted)
    assert not asked and len(set(by_chance.tolist())) == 11
    rows = marks.drawn(sets.sick, np.arange(12), 11, 0, "score", fitted)
    assert rows[:3].tolist() == by_chance[:3].tolist() and len(set(rows.tolist())) == 11
    assert asked == [rows[:3].tolist(), rows[:5].tolist(), rows[:10].tolist()]
    assert marks.drawn(sets.sick, np.arange(12), 3, 0, "score", fitted).tolist() == by_chance[:3].tolist()


def test_what_two_arms_share_is_fitted_once(sets, tmp_path, monkeypatch):
    monkeypatch.setattr(marks, "_fitted", lambda *a: counted.append(a[2].tolist()) or Doubtful())
    monkeypatch.setattr(marks, "measured", lambda *a: (dict.fromkeys(marks.MEASURES, 0.5), np.zeros(6)))
    encoder, counted, fits = build_encoder(EncoderConfig(arch=ARCH, seed=3)), [], {}
    few, more, ordered = (arm("learnt", n, **by) for n, by in ((3, {}), (5, {}), (5, {"order": "score"})))
    for one in (few, more, ordered):
        marks.run_arm(sets, encoder, tmp_path, SIDE, one, 0, fits=fits)
    assert len(counted) == len({tuple(rows) for rows in counted}) == 6  # three for each half
    marks.run_arm(sets, encoder, tmp_path, SIDE, few, 1, fits=fits)
    assert len(counted) == 8


@pytest.mark.long
def test_figures_with_and_without_marks(sets, tmp_path, monkeypatch):
    encoder = build_encoder(EncoderConfig(arch=ARCH, seed=3))
    PaDiM.fit(encoder, sets.train.images, PaDiMConfig(channels=20)).save(tmp_path)
    config = {"base": "padim", "width": 16, "steps": 20}
    none, some = (marks.run_arm(sets, encoder, tmp_path, SIDE, arm("learnt", count, **config), 0) for count in (0, 4))
    for row in (none, some):
        assert set(row) == {*marks.MEASURES, "cases", "whose", "tried"} and len(row["cases"]) == len(row["whose"]) == 12
        assert all(0 <= row[name] <= 1 for name in marks.MEASURES if name != "seconds")
        assert row["dice"] == pytest.approx(np.mean(row["cases"]))
        assert sorted(row["whose"]) == sorted(sets.sick.patients.tolist())
    assert some["pixel_auroc"] > none["pixel_auroc"]

"""The experiment of marks: who may be marked and who is tested, and its figures."""

import numpy as np
import pytest

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.base import Prediction
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.studio.experiments import marks
from core.studio.experiments.arm import Arm
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


@pytest.mark.long
def test_figures_with_and_without_marks(sets, tmp_path, monkeypatch):
    encoder = build_encoder(EncoderConfig(arch=ARCH, seed=3))
    PaDiM.fit(encoder, sets.train.images, PaDiMConfig(channels=20)).save(tmp_path)
    config = {"base": "padim", "width": 16, "steps": 20}
    none, some = (marks.run_arm(sets, encoder, tmp_path, SIDE, arm("learnt", count, **config), 0) for count in (0, 4))
    for row in (none, some):
        assert set(row) == {*marks.MEASURES, "cases"} and len(row["cases"]) == 12
        assert all(0 <= row[name] <= 1 for name in marks.MEASURES if name != "seconds")
        assert row["dice"] == pytest.approx(np.mean(row["cases"]))
    assert some["pixel_auroc"] > none["pixel_auroc"]


@pytest.mark.long
def test_another_detector_learns_from_the_same_marks(sets, tmp_path):
    """It is fitted with a base that is not there, and without marks on normal images alone."""
    encoder = build_encoder(EncoderConfig(arch=ARCH, seed=3))
    small = {"steps": 4, "hidden": 8, "convolved": 4}
    none, some = (
        marks.run_arm(sets, encoder, tmp_path / "none", SIDE, arm("supersimplenet", count, **small), 0)
        for count in (0, 4)
    )
    assert none["cases"] != some["cases"] and all(0 <= row["auroc"] <= 1 for row in (none, some))

"""Two detectors on the same images: the figures themselves, and an interval of their difference drawn in pairs."""

from __future__ import annotations

import numpy as np
import pytest

from core.engine.calibration.percentiles import Calibration
from core.engine.metrics.detection import auroc
from core.engine.metrics.localisation import overlaps_of, pixel_auroc, pro
from core.engine.metrics.paired import MEASURES, Read, Truth, compared

SIDE = 16


def truth_of(well: int, sick: int, roi: bool = False) -> Truth:
    labels = np.repeat([0, 1], [well, sick])
    masks = np.zeros((well + sick, SIDE, SIDE), np.uint8)
    for i in range(well, well + sick):
        masks[i, 2 + i % 6 : 8 + i % 6, 3:9] = 1
    around = np.ones_like(masks)
    around[:, :, 12:] = 0
    return Truth(labels, masks, labels == 1, around if roi else None)


def read_of(truth: Truth, gain: float, seed: int) -> Read:
    """A detector whose maps and scores rise by `gain` deviations where something is abnormal."""
    draw = np.random.default_rng(seed)
    maps = (draw.normal(size=truth.masks.shape) + gain * truth.masks).astype(np.float32)
    held = Calibration.of(np.zeros(1), draw.normal(size=(30, SIDE, SIDE)).astype(np.float32))
    return Read(draw.normal(size=len(truth.labels)) + gain * truth.labels, maps, held)


@pytest.mark.parametrize("roi", [False, True])
def test_the_figures_are_those_of_each_measure_alone(roi):
    truth = truth_of(25, 24, roi)
    old, new = read_of(truth, 1.0, 1), read_of(truth, 2.0, 2)
    found = compared(old, new, truth, times=50)
    assert set(found) == set(MEASURES)
    lesion = truth.masks > 0
    valid = np.ones_like(lesion) if truth.roi is None else truth.roi > 0
    sick = truth.labels == 1
    for name, read in (("old", old), ("new", new)):
        dice = overlaps_of((read.maps[sick] > read.held.pixels.threshold) & valid[sick], lesion[sick], valid[sick])[0]
        want = {
            "auroc": auroc(read.scores, truth.labels),
            "pixel_auroc": pixel_auroc(read.maps, lesion, valid),
            "dice": dice.mean(),
            "pro": pro(read.maps[sick], lesion[sick], valid[sick]),
        }
        for measure, value in want.items():
            assert found[measure][name] == pytest.approx(value, abs=1e-6), measure
    for row in found.values():
        assert row["difference"] == pytest.approx(row["new"] - row["old"]) and row["enough"]
        low, high = row["interval"]
        assert low <= row["difference"] + 0.02 and high >= row["difference"] - 0.02
    assert found["dice"]["images"] == 24 and found["auroc"]["images"] == 49


def test_a_detector_beside_itself_differs_by_nothing_and_a_better_one_is_seen():
    truth = truth_of(30, 30)
    one, better = read_of(truth, 0.5, 1), read_of(truth, 3.0, 2)
    same = compared(one, one, truth, times=100)
    assert all(row["difference"] == 0 and row["interval"] == [0.0, 0.0] for row in same.values())
    assert all(row["interval"][0] > 0 for row in compared(one, better, truth, times=100).values())


def test_images_of_one_patient_widen_the_interval():
    truth = truth_of(40, 40)
    old, new = read_of(truth, 1.0, 1), read_of(truth, 1.5, 2)
    alike = Truth(truth.labels, truth.masks, truth.has_mask, None, np.arange(80) // 10)
    for read in (old, new):
        read.scores[:] = np.repeat(read.scores[::10], 10)  # images of a patient score alike
    wide, narrow = (compared(old, new, t, times=300)["auroc"]["interval"] for t in (alike, truth))
    assert wide[1] - wide[0] > narrow[1] - narrow[0]


def test_what_cannot_be_had_is_none_and_few_are_said_to_be_few():
    truth = truth_of(5, 30)
    found = compared(read_of(truth, 1, 1), read_of(truth, 1, 2), truth, times=20)
    assert not found["auroc"]["enough"] and found["dice"]["enough"]
    unmasked = Truth(truth.labels, truth.masks, np.zeros(35, bool))
    found = compared(read_of(truth, 1, 1), read_of(truth, 1, 2), unmasked, times=20)
    assert found["auroc"]["new"] is not None
    for name in ("pixel_auroc", "dice", "pro"):
        assert found[name]["new"] is None and found[name]["interval"] is None and not found[name]["enough"]
    all_sick = truth_of(0, 25)
    found = compared(read_of(all_sick, 1, 1), read_of(all_sick, 1, 2), all_sick, times=20)
    assert found["auroc"]["difference"] is None and found["dice"]["difference"] is not None

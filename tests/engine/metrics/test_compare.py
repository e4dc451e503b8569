"""Paired comparisons against slow versions of their definitions, and what they must say of simulated methods."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from core.engine.calibration.percentiles import Calibration
from core.engine.metrics.compare import MEASURES, Read, Truth, compared, delong, holm, paired_bootstrap
from core.engine.metrics.detection import auroc
from core.engine.metrics.localisation import overlaps_of, pixel_auroc, pro


def slow_delong(scores, labels, weights):
    """DeLong et al. 1988, by loops: the covariance matrices of the components, then the contrast."""
    sick, well = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)

    def above(a, b):
        return 1.0 if a > b else 0.5 if a == b else 0.0

    v10 = np.array([[np.mean([above(s[i], s[j]) for j in well]) for i in sick] for s in scores])
    v01 = np.array([[np.mean([above(s[i], s[j]) for i in sick]) for j in well] for s in scores])
    covariance = np.cov(v10) / len(sick) + np.cov(v01) / len(well)
    difference = weights @ v10.mean(1)
    return difference, 2 * stats.norm.sf(abs(difference) / np.sqrt(weights @ covariance @ weights))


@pytest.mark.parametrize("seeds", [(1, 1), (2, 3)])
def test_delong_is_its_definition(seeds):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 30)
    scores = np.round(rng.normal(size=(sum(seeds), 30)) + labels, 1)  # rounded, so that there are ties
    weights = np.concatenate([np.full(seeds[0], 1 / seeds[0]), np.full(seeds[1], -1 / seeds[1])])
    found = delong(scores[: seeds[0]], scores[seeds[0] :], labels)
    assert found == pytest.approx(slow_delong(scores, labels, weights), rel=1e-9)
    means = [np.mean([auroc(s, labels) for s in part]) for part in (scores[: seeds[0]], scores[seeds[0] :])]
    assert found[0] == pytest.approx(means[0] - means[1])


def test_p_values_are_even_where_there_is_no_difference():
    """Two equally noisy readings of one truth: the share of p below 0.1 is about 0.1, for both tests."""
    rng, p_auroc, p_dice = np.random.default_rng(1), [], []
    labels = np.repeat([0, 1], 40)
    for i in range(200):
        truth = labels + rng.normal(size=80)
        one, two = (truth + rng.normal(size=80) for _ in range(2))
        p_auroc.append(delong(one, two, labels)[1])
        p_dice.append(paired_bootstrap(one, two, times=200, seed=i)[1])
    for found in (p_auroc, p_dice):
        assert 0.04 < np.mean(np.array(found) < 0.1) < 0.19


def test_a_real_difference_is_found_and_equals_are_not():
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1], 100)
    good, poor = 2 * labels + rng.normal(size=200), 0.3 * labels + rng.normal(size=200)
    difference, p = delong(good, poor, labels)
    assert difference > 0.2 and p < 1e-4
    assert delong(good, good, labels) == (0.0, 1.0)
    with pytest.raises(ValueError, match="two normal"):
        delong(good[:101], poor[:101], labels[:101])


def test_images_of_one_patient_are_drawn_together():
    """Twenty copies of each of six patients are no better than six images."""
    rng = np.random.default_rng(3)
    gap = rng.normal(0.5, 1.0, 6)
    many, patients = np.repeat(gap, 20), np.repeat(np.arange(6), 20)
    alone = paired_bootstrap(gap, np.zeros(6), seed=5)[1]
    assert paired_bootstrap(many, np.zeros(120), patients, seed=5)[1] == pytest.approx(alone, abs=0.05)
    assert paired_bootstrap(many, np.zeros(120), seed=5)[1] < alone


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0]) and holm([]) == []


def test_with_patients_the_p_value_is_even_too_and_the_plain_one_is_not():
    rng = np.random.default_rng(3)
    whose = np.repeat(np.arange(40), 5)
    labels = (whose % 2).astype(int)
    by_image, by_patient = [], []
    for _ in range(200):
        of_patient = rng.normal(size=(2, 40))[:, whose]  # what differs between methods is a patient's, not an image's
        one, two = labels + 0.3 * rng.normal(size=(2, 200)) + of_patient
        by_image.append(delong(one, two, labels)[1])
        by_patient.append(delong(one, two, labels, whose)[1])
    assert (np.array(by_image) < 0.05).mean() > 0.25
    assert 0.005 < (np.array(by_patient) < 0.05).mean() < 0.12


def test_a_patient_for_each_image_changes_nothing():
    rng = np.random.default_rng(4)
    labels = np.arange(60) % 2
    one, two = rng.normal(size=(2, 60)) + labels
    assert delong(one, two, labels, rng.permutation(60)) == pytest.approx(delong(one, two, labels))
    with pytest.raises(ValueError, match="two patients"):
        delong(one, two, labels, np.zeros(60, int))


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

"""Thresholds with a promise, by images and by patients: they hold in simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from core.engine.calibration.conformal import by_images, by_patients, strongest_guarantee


@pytest.mark.parametrize(("n", "alpha"), [(19, 0.05), (60, 0.05), (99, 0.1)])
def test_conformal_threshold_holds_on_average(n, alpha):
    """Mean share flagged over draws of held-out scores: at most alpha, and no less than 1 / (n + 1) below it."""
    draw = np.random.default_rng(n)
    shares = []
    for _ in range(4000):
        threshold = by_images(np.sort(draw.standard_normal(n)), alpha).threshold
        shares.append(stats.norm.sf(threshold))
    error = 4 * np.std(shares) / math.sqrt(len(shares))
    assert alpha - 1 / (n + 1) - error <= np.mean(shares) <= alpha + error


@pytest.mark.parametrize(("n", "alpha", "confidence"), [(59, 0.05, 0.95), (100, 0.05, 0.95), (200, 0.1, 0.9)])
def test_conformal_threshold_with_confidence(n, alpha, confidence):
    draw = np.random.default_rng(n)
    kept = [
        stats.norm.sf(by_images(np.sort(draw.standard_normal(n)), alpha, confidence).threshold) <= alpha
        for _ in range(2000)
    ]
    assert stats.binom.cdf(sum(kept), len(kept), confidence) > 1e-3


@pytest.mark.parametrize(("confidence", "needed"), [(None, 19), (0.95, 59)])
def test_how_many_held_out_images_it_takes(confidence, needed):
    draw = np.random.default_rng(0)
    enough = by_images(np.sort(draw.random(needed)), 0.05, confidence)
    assert enough.needed == needed and enough.threshold == pytest.approx(draw.random(1).max(), abs=1)
    assert math.isfinite(enough.threshold) and "At most 5 %" in enough.guarantee
    short = by_images(np.sort(draw.random(needed - 1)), 0.05, confidence)
    assert short.threshold == math.inf and str(needed) in short.guarantee and "Hold out more" in short.guarantee


@pytest.mark.parametrize(("n", "alpha"), [(19, 0.05), (40, 0.05), (99, 0.1), (24, 0.2)])
def test_with_one_image_a_patient_it_is_the_threshold_by_images(n, alpha):
    scores = np.random.default_rng(n).normal(size=n)
    assert by_patients(scores, np.arange(n), alpha).threshold == by_images(np.sort(scores), alpha).threshold


def test_the_lowest_score_with_enough_of_the_weight():
    """Against the definition, score by score."""
    rng = np.random.default_rng(0)
    patients = rng.permutation(np.repeat(np.arange(25), rng.integers(1, 9, 25)))
    scores = rng.normal(size=len(patients)).round(1)
    share = {p: 1 / (patients == p).sum() / 26 for p in set(patients)}
    below = [t for t in sorted(scores) if sum(share[p] for s, p in zip(scores, patients, strict=True) if s <= t) >= 0.9]
    assert by_patients(scores, patients, 0.1).threshold == below[0]


def test_it_holds_for_images_of_new_patients_where_the_one_by_images_does_not():
    """Patients differ by as much as their images do, and some have many images."""
    rng = np.random.default_rng(1)
    spread, shares = 2.0, {by_images: [], by_patients: []}
    for _ in range(1500):
        images = rng.choice([2, 30], 20, p=[0.8, 0.2])
        patients = np.repeat(np.arange(20), images)
        scores = spread * rng.normal(size=20)[patients] + rng.normal(size=len(patients))
        for how, given in ((by_images, (np.sort(scores),)), (by_patients, (scores, patients))):
            threshold = how(*given).threshold
            shares[how].append(stats.norm.sf(threshold / math.hypot(spread, 1)))
    error = {how: 4 * np.std(of) / math.sqrt(len(of)) for how, of in shares.items()}
    assert np.mean(shares[by_patients]) <= 0.05 + error[by_patients]
    assert np.mean(shares[by_images]) > 0.05 + error[by_images]


def test_too_few_patients_promise_nothing_and_say_how_many_it_takes():
    bound = by_patients(np.arange(900.0), np.repeat(np.arange(18), 50))
    assert bound.threshold == math.inf and (bound.held, bound.needed) == (18, 19)
    assert "19 held-out patients, and there are 18" in bound.guarantee
    assert "new patients like the 19" in by_patients(np.arange(38.0), np.repeat(np.arange(19), 2)).guarantee


def test_the_strongest_promise_that_so_few_allow():
    scores = np.random.default_rng(0).normal(size=177)
    patients = np.repeat(np.arange(59), 3)
    assert "95 % confidence in the held-out patients" in strongest_guarantee(scores, patients).guarantee
    assert strongest_guarantee(scores, patients).held == 59
    assert "95 % confidence in the held-out images" in strongest_guarantee(scores).guarantee
    assert strongest_guarantee(scores[:57], patients[:57]) == by_patients(scores[:57], patients[:57])
    assert strongest_guarantee(scores[:30]) == by_images(np.sort(scores[:30]))
    assert strongest_guarantee(scores[:18]).threshold == math.inf


def test_with_confidence_it_holds_for_new_patients_that_often():
    """Images of a patient are alike: of 400 draws of patients, few exceed the share."""
    rng, broken = np.random.default_rng(3), 0
    for _ in range(400):
        patients = np.repeat(np.arange(80), rng.choice([1, 12], 80))
        scores = 2 * rng.normal(size=80)[patients] + rng.normal(size=len(patients))
        broken += stats.norm.sf(by_patients(scores, patients, 0.05, 0.95).threshold / math.hypot(2, 1)) > 0.05
    assert broken <= stats.binom.ppf(0.999, 400, 0.05)


def test_a_share_lies_between_nothing_and_all():
    with pytest.raises(ValueError, match="between 0 and 1"):
        by_patients(np.zeros(30), np.arange(30), 1.0)
    for alpha, confidence in ((0, None), (1, None), (0.05, 1.0)):
        with pytest.raises(ValueError):
            by_images(np.array([1.0]), alpha, confidence)

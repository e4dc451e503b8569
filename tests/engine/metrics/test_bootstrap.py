"""Intervals: each draw's figure is that of the drawn images, and the truth lies inside about as often as promised."""

import numpy as np
import pytest
from sklearn import metrics as sk

from core.engine.metrics import bootstrap as boot
from core.engine.metrics.detection import auroc, average_precision
from core.engine.metrics.localisation import pro, region_weights


def test_draws_keep_the_size_of_each_kind():
    labels = np.array([0] * 30 + [1] * 12)
    counts = boot.bootstrap_counts(labels, 50, 0)
    assert counts.shape == (50, 42)
    assert (counts[:, :30].sum(1) == 30).all() and (counts[:, 30:].sum(1) == 12).all()
    assert np.array_equal(counts, boot.bootstrap_counts(labels, 50, 0))
    assert not np.array_equal(counts, boot.bootstrap_counts(labels, 50, 1))


def test_each_draw_has_the_figures_of_the_images_drawn():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 25)
    scores = np.round(rng.normal(size=50) + labels, 1)
    counts = boot.bootstrap_counts(labels, 20, 3)
    areas, precisions = boot.detection(scores, labels, counts)
    for row, area, precision in zip(counts.astype(int), areas, precisions, strict=True):
        drawn = np.repeat(np.arange(50), row)
        assert area == pytest.approx(sk.roc_auc_score(labels[drawn], scores[drawn]), abs=1e-6)
        assert precision == pytest.approx(average_precision(scores[drawn], labels[drawn]), abs=1e-6)


def test_pixel_figures_of_each_draw_match_the_exact_ones_to_a_bin():
    rng = np.random.default_rng(1)
    masks = np.zeros((12, 24, 24), np.uint8)
    for i, (y, x) in enumerate(rng.integers(0, 16, (12, 2))):
        masks[i, y : y + 6, x : x + 4 + i % 4] = 1
    maps = (rng.normal(size=masks.shape) + rng.uniform(0.2, 2, (12, 1, 1)) * masks).astype(np.float32)
    weights, regions = region_weights(masks)
    heavy, light = boot.histograms(maps, weights, masks == 0)
    pixels = boot.histograms(maps, masks.astype(np.float32), masks == 0)[0]
    counts = boot.bootstrap_counts(np.ones(12), 15, 0)
    found = boot.pros(counts @ heavy, counts @ regions, counts @ light)
    areas = boot.aurocs(counts @ light, counts @ pixels)
    for row, value, area in zip(counts.astype(int), found, areas, strict=True):
        drawn = np.repeat(np.arange(12), row)
        assert value == pytest.approx(pro(maps[drawn], masks[drawn]), abs=3e-3)
        assert area == pytest.approx(auroc(maps[drawn], masks[drawn]), abs=1e-3)
    assert np.std(found) > 0.01  # draws differ by far more than a bin's width


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    truth = 0.7602  # P(N(1, 1) > N(0, 1)) = Phi(1 / sqrt 2)
    labels = np.repeat([0, 1], 60)
    inside = 0
    for trial in range(120):
        scores = rng.normal(size=120) + labels
        lo, hi = boot.interval(boot.detection(scores, labels, boot.bootstrap_counts(labels, 300, trial))[0])
        inside += lo <= truth <= hi
    assert 0.87 <= inside / 120 <= 1.0


def test_an_interval_of_nothing_is_none():
    assert boot.interval(np.array([np.nan])) is None


def test_patients_are_drawn_as_a_whole():
    """Ten patients of eight alike images each: the interval is as wide as that of ten images, not of eighty."""
    rng = np.random.default_rng(0)
    of_patient = np.repeat([0, 1], 5) * 0.8 + rng.normal(size=10)
    labels, patients = np.repeat(np.repeat([0, 1], 5), 8), np.repeat(np.arange(10), 8)
    scores = np.repeat(of_patient, 8) + 0.01 * rng.normal(size=80)
    counts = boot.bootstrap_counts(labels, 400, 1, patients)
    assert all(len(set(row)) == 1 for part in counts for row in part.reshape(10, 8)) and (counts.sum(1) == 80).all()
    assert (counts[:, labels == 1].sum(1) == 40).all()

    def width(some, kinds, drawn):
        low, high = boot.interval(boot.detection(some, kinds, drawn)[0])
        return high - low

    alone = width(of_patient, np.repeat([0, 1], 5), boot.bootstrap_counts(np.repeat([0, 1], 5), 400, 1))
    assert abs(width(scores, labels, counts) - alone) < 0.1
    assert width(scores, labels, boot.bootstrap_counts(labels, 400, 1)) < 0.6 * alone


def test_a_patient_with_normal_and_abnormal_images_counts_as_abnormal():
    labels, patients = np.array([0, 0, 0, 1, 0, 1]), np.array(["a", "b", "c", "c", "d", "d"])
    counts = boot.bootstrap_counts(labels, 300, 0, patients)
    assert (counts[:, 2] == counts[:, 3]).all() and (counts[:, 4] == counts[:, 5]).all()
    assert (counts[:, 3] + counts[:, 5] == 2).all() and (counts[:, 0] + counts[:, 1] == 2).all()

"""Image figures, against scikit-learn and against counts by hand."""

import numpy as np
import pytest
from sklearn import metrics as sk

from core.engine.metrics.detection import auroc, average_precision, mean_colour_scores, rates


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ties", [False, True])
def test_auroc_and_ap_are_those_of_scikit_learn(seed, ties):
    rng = np.random.default_rng(seed)
    labels = (rng.random(200) < rng.uniform(0.1, 0.9)).astype(int)
    scores = rng.normal(size=200) + labels * rng.uniform(0, 2)
    if ties:
        scores = np.round(scores, 1)
    assert auroc(scores, labels) == pytest.approx(sk.roc_auc_score(labels, scores), abs=1e-12)
    assert average_precision(scores, labels) == pytest.approx(sk.average_precision_score(labels, scores), abs=1e-12)


def test_auroc_of_a_constant_is_a_half_and_of_one_kind_is_none():
    assert auroc(np.zeros(10), np.arange(10) % 2) == 0.5
    assert auroc(np.arange(5.0), np.ones(5)) is None
    assert average_precision(np.arange(5.0), np.zeros(5)) is None


def test_rates_count_what_lies_strictly_above_the_threshold():
    scores, labels = np.array([1.0, 2, 3, 4, 5]), np.array([0, 0, 1, 0, 1])
    assert rates(scores, labels, 3.0) == {"sensitivity": 0.5, "specificity": pytest.approx(2 / 3), "accuracy": 0.6}


def test_mean_colour_finds_a_tint_and_not_a_texture():
    rng = np.random.default_rng(0)
    normal = rng.integers(90, 110, (60, 16, 16, 3)).astype(np.uint8)
    tinted = normal[:20] + np.uint8(8)
    labels = np.repeat([0, 1], 20)
    assert auroc(mean_colour_scores(normal[20:], np.concatenate([normal[:20], tinted])), labels) == 1
    turned = normal[:20, ::-1].copy()  # the same colours, elsewhere
    assert auroc(mean_colour_scores(normal[20:], np.concatenate([normal[:20], turned])), labels) == 0.5


def test_mean_colour_looks_inside_the_region_only():
    images = np.full((6, 8, 8, 3), 100, np.uint8)
    images[:3] += np.arange(3, dtype=np.uint8)[:, None, None, None]
    roi = np.ones((6, 8, 8), np.uint8)
    roi[:, :4] = 0
    images[5, :4] = 255  # outside
    scores = mean_colour_scores(images[:3], images[3:], (roi[:3], roi[3:]))
    assert scores[2] == pytest.approx(scores[0])
    assert mean_colour_scores(images[:3], images[3:])[2] > 10 * scores[0]

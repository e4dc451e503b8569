"""ROC curves of one reader: against scikit-learn, a loop over pairs, and draws of known curves."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from core.studio.trials import readers, roc
from tests.studio.trials.test_mrmc import drawn, pairs_area


def test_areas_and_points_are_those_of_scikit_learn_and_of_pairs():
    ratings, truth = drawn(2)
    figure = roc.area(ratings, truth)
    for i, j in np.ndindex(2, 4):
        assert figure.value[i, j] == pytest.approx(roc_auc_score(truth, ratings[i, j]), abs=1e-12)
        assert figure.value[i, j] == pytest.approx(pairs_area(ratings[i, j], truth), abs=1e-12)
        assert figure.normal[i, j].mean() == pytest.approx(figure.value[i, j])
        x, y = roc.points(ratings[i, j], truth)
        fpr, tpr, _ = roc_curve(truth, ratings[i, j], drop_intermediate=False)
        assert (x, y) == (pytest.approx(fpr), pytest.approx(tpr))
        assert np.trapezoid(y, x) == pytest.approx(figure.value[i, j])
    with pytest.raises(ValueError, match="two normal"):
        roc.area(ratings[..., :3], np.array([True, False, False]))


def test_a_kernel_of_pairs_is_the_area():
    ratings, truth = drawn(4)
    low, high = ratings[..., ~truth][..., :, None], ratings[..., truth][..., None, :]
    whole, fast = roc.of_kernel((high > low) + 0.5 * (high == low)), roc.area(ratings, truth)
    for a, b in zip(whole, fast, strict=True):
        assert a == pytest.approx(b)


def test_an_interval_of_an_area_stays_within_it():
    low, high = roc.interval(0.97, 0.02)
    assert 0.88 < low < 0.97 < high < 1 and roc.interval(1.0, 0.0) == (1.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("b", [0.7, 1.0])
def test_a_binormal_curve_is_found_in_draws_of_one(b):
    rng, a = np.random.default_rng(0), 1.4
    normal, abnormal = rng.normal(0, 1, 3000), rng.normal(a / b, 1 / b, 3000)
    ratings = np.digitize(np.concatenate([normal, abnormal]), [-0.5, 0, 0.5, 1, 1.5, 2])
    fit = roc.binormal(ratings, np.repeat([False, True], 3000))
    area = stats.norm.cdf(a / np.hypot(1, b))
    assert (fit.a, fit.b) == pytest.approx((a, b), abs=0.1) and abs(fit.area - area) < 3 * fit.error
    assert fit.error == pytest.approx(0.0055, abs=0.002)
    x = np.linspace(0.001, 0.999, 2000)
    assert np.trapezoid(fit.curve(x), x) == pytest.approx(fit.area, abs=2e-3)


def test_no_binormal_curve_is_fitted_where_none_is():
    truth = np.repeat([False, True], 20)
    assert roc.binormal(truth * 1.0, truth) is None  # two categories
    assert roc.binormal(np.concatenate([np.arange(20) % 2, np.full(20, 3)]), truth) is None  # without an inner point


def test_helped_and_harmed_by_hand():
    truth = np.array([1, 1, 1, 0, 0, 0], bool)
    before = np.array([1, 0, 0, 0, 0, 1], bool)
    after = np.array([1, 1, 0, 1, 0, 0], bool)
    machine = np.array([1, 1, 0, 1, 1, 0], bool)
    found = readers.changes(before, after, truth, machine)
    assert (found["helped"], found["harmed"], found["both_right"], found["both_wrong"]) == (2, 1, 2, 1)
    assert (found["misled"]["hits"], found["misled"]["n"]) == (1, 2)  # two right readers saw a wrong machine
    assert (found["corrected"]["hits"], found["corrected"]["n"]) == (2, 2)
    assert found["p"] == 1.0


def test_kappas_and_times():
    rng = np.random.default_rng(0)
    decisions = rng.integers(0, 3, (3, 50))
    assert readers.kappa(decisions[0], decisions[0])["kappa"] == 1
    assert [row["readers"] for row in readers.between(decisions, ["a", "b", "c"])] == [
        ["a", "b"], ["a", "c"], ["b", "c"],
    ]  # fmt: skip
    seconds = rng.lognormal(2, 0.3, (4, 30))
    ratio = readers.time_ratio(seconds, 1.5 * seconds)
    assert (ratio["ratio"], ratio["low"]) == pytest.approx((1.5, 1.5)) and readers.time_ratio(
        seconds[:1], seconds[:1]
    ) is None
    assert readers.times({"x": np.array([1, np.nan, 3]), "y": np.array([np.nan])}) == {
        "x": {"median": 2.0, "low": 1.5, "high": 2.5, "n": 2}, "y": None,
    }  # fmt: skip

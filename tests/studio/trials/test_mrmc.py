"""ROC curves and the analysis of variance: against scikit-learn, loops over pairs, published figures, known draws."""

import csv
import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from core.studio.trials import analysis, mrmc
from core.studio.trials.mrmc import Components, Expected
from tests.studio.trials.simulated import RoeMetz, rejected

ROOT = Path(__file__).resolve().parents[3]

# Van Dyke et al. 1993, 5 readers, 2 modalities, 45 abnormal and 69 normal cases, as the programs OR-DBM MRMC 2.51,
# MRMCaov and RJafroc print it: areas, mean squares, components by the jackknife, and what follows from them.
AREAS = np.array(
    [[0.91964573, 0.85877617, 0.90386473, 0.97310789, 0.82979066],
     [0.94782609, 0.90531401, 0.92173913, 0.99935588, 0.92995169]]
)  # fmt: skip
PRINTED = Components(0.0008022883, 0.0003466137, 0.0003440748, 0.0002390284)
BOTH = {"difference": -0.04380032, "error": 0.02074862, "statistic": 4.456319, "df2": 15.25967, "p": 0.05166569}


def printed(test) -> dict:
    """A test's figures to the digits that are printed: seven that count."""
    return {name: float(f"{getattr(test, name):.7g}") for name in BOTH}


def van_dyke() -> tuple[np.ndarray, np.ndarray]:
    """Ratings (2, 5, 114) and truth, from RocData.csv of the RJafroc package (GPL-3; no part of this repository)."""
    file = Path(os.environ.get("PMSACL_DATA", ROOT.parent / "shared" / "data")) / "vandyke" / "RocData.csv"
    if not file.exists():
        pytest.skip(f"no {file}; it is inst/extdata/RocData.csv of RJafroc")
    rows = list(csv.DictReader(file.open()))
    ratings, truth = np.zeros((2, 5, 114)), np.zeros(114, bool)
    for row in rows:
        case = int(row["case"]) - 1
        ratings[int(row["treatment"]), int(row["reader"]), case] = float(row["rating"])
        truth[case] = float(row["truth"]) > 0
    return ratings, truth


def test_van_dykes_ratings_give_the_published_digits():
    found = mrmc.analyse(mrmc.area(*van_dyke()))
    assert found.values == pytest.approx(AREAS, abs=5e-9)
    assert [float(f"{v:.7g}") for v in found.components] == list(PRINTED)
    assert printed(found.tests["both"]) == BOTH
    assert found.reader_variance == pytest.approx(0.00153500, abs=5e-9)
    assert found.interaction_variance == pytest.approx(0.00020040, abs=5e-9)


def test_published_components_give_the_published_tests():
    """Of the areas and the four components as printed, without the ratings: F, degrees of freedom, p and intervals."""
    by_arm, rest = AREAS.mean(1), AREAS - AREAS.mean(1, keepdims=True) - AREAS.mean(0) + AREAS.mean()
    ms_t, ms_tr = 5 * by_arm.var(ddof=1), (rest**2).sum() / 4
    assert (ms_t, ms_tr) == pytest.approx((0.00479617, 0.00055103), abs=5e-9)
    tests = mrmc.tests_of(by_arm, ms_t, ms_tr, PRINTED, 5)
    both = tests["both"]
    for name, value in BOTH.items():
        assert getattr(both, name) == pytest.approx(value, rel=1e-6)
    assert (both.low, both.high) == pytest.approx((-0.08796, 0.00036), abs=5e-6)
    fixed, cases = tests["readers fixed"], tests["cases fixed"]
    assert (fixed.statistic, fixed.error, round(fixed.p, 4)) == pytest.approx((5.47595, 0.01872, 0.0193), abs=5e-6)
    assert (cases.error, cases.df2, round(cases.p, 4)) == pytest.approx((0.01485, 4, 0.0420), abs=5e-6)
    assert (round(cases.low, 5), round(cases.high, 5)) == (-0.08502, -0.00258)


def drawn(seed: int = 0, readers: int = 4, normal: int = 12, abnormal: int = 9, levels: int = 6):
    """Ratings in a few steps, with ties, and truth in no order."""
    rng = np.random.default_rng(seed)
    ratings = RoeMetz((0.7, 0.85)).ratings(rng, readers, normal, abnormal)
    order = rng.permutation(normal + abnormal)
    truth = np.repeat([False, True], [normal, abnormal])[order]
    return np.digitize(ratings, np.linspace(-1, 3, levels))[..., order], truth


def pairs_area(ratings, truth) -> float:
    """The area by its definition: a loop over pairs."""
    wins = [
        1.0 if high > low else 0.5 if high == low else 0.0
        for high in ratings[truth]
        for low in ratings[~truth]
    ]  # fmt: skip
    return sum(wins) / len(wins)


def literal(ratings, truth) -> dict:
    """Obuchowski-Rockette as the papers write it: areas counted anew without each case, sums over indices."""
    t, r, n = ratings.shape
    theta = [[pairs_area(ratings[i, j], truth) for j in range(r)] for i in range(t)]
    without = np.zeros((t, r, n))
    for i, j, k in itertools.product(range(t), range(r), range(n)):
        left = np.arange(n) != k
        without[i, j, k] = pairs_area(ratings[i, j, left], truth[left])

    def covariance(i, j, other_i, other_j):
        a, b = without[i, j], without[other_i, other_j]
        return (n - 1) / n * sum((a[k] - a.mean()) * (b[k] - b.mean()) for k in range(n))

    kinds = {"error": [], "cov1": [], "cov2": [], "cov3": []}
    for (i, j), (u, v) in itertools.product(itertools.product(range(t), range(r)), repeat=2):
        name = {(True, True): "error", (False, True): "cov1", (True, False): "cov2", (False, False): "cov3"}
        kinds[name[i == u, j == v]].append(covariance(i, j, u, v))
    error, cov1, cov2, cov3 = (sum(v) / len(v) for v in kinds.values())
    grand = sum(map(sum, theta)) / (t * r)
    arm = [sum(row) / r for row in theta]
    reader = [sum(theta[i][j] for i in range(t)) / t for j in range(r)]
    ms_t = r * sum((a - grand) ** 2 for a in arm) / (t - 1)
    pairs = itertools.product(range(t), range(r))
    ms_tr = sum((theta[i][j] - arm[i] - reader[j] + grand) ** 2 for i, j in pairs) / ((t - 1) * (r - 1))
    below = ms_tr + r * max(cov2 - cov3, 0)
    ddf = below**2 / (ms_tr**2 / ((t - 1) * (r - 1)))
    return {
        "components": (error, cov1, cov2, cov3),
        "statistic": ms_t / below,
        "df2": ddf,
        "p": stats.f.sf(ms_t / below, t - 1, ddf),
        "error": (2 / r * below) ** 0.5,
    }


@pytest.mark.parametrize("seed", range(3))
def test_the_analysis_is_the_literal_one(seed):
    ratings, truth = drawn(seed)
    found, slow = mrmc.analyse(mrmc.area(ratings, truth)), literal(ratings, truth)
    assert tuple(found.components) == pytest.approx(slow.pop("components"), rel=1e-9)
    for name, value in slow.items():
        assert getattr(found.tests["both"], name) == pytest.approx(value, rel=1e-9)


def test_delongs_covariances_are_sums_over_placements():
    ratings, truth = drawn(5)
    figure = mrmc.area(ratings, truth)
    a, b = (0, 1), (1, 2)
    by_hand = np.cov(figure.abnormal[a], figure.abnormal[b])[0, 1] / truth.sum()
    by_hand += np.cov(figure.normal[a], figure.normal[b])[0, 1] / (~truth).sum()
    assert mrmc.covariances(figure, "delong")[1, 4 + 2] == pytest.approx(by_hand, rel=1e-12)
    with pytest.raises(ValueError, match="jackknife, delong"):
        mrmc.covariances(figure, "bootstrap")


def test_special_cases_of_the_formulas():
    ratings, truth = drawn(7)
    # Fixed cases and two arms: the paired t test of the readers' areas.
    found = mrmc.analyse(mrmc.area(ratings, truth))
    paired = stats.ttest_rel(*found.values)
    assert found.tests["cases fixed"].p == pytest.approx(paired.pvalue, rel=1e-9)
    # Cov2 = Cov3 in the denominator: random readers and cases are then random readers alone.
    same = mrmc.tests_of(found.values.mean(1), found.ms["arms"], found.ms["arms x readers"], Components(1, 0, 2, 3), 4)
    assert same["both"].p == same["cases fixed"].p and same["both"].df2 == 3
    # The same arm twice: no difference at all, and p = 1.
    twice = mrmc.analyse(mrmc.area(np.stack([ratings[0], ratings[0]]), truth))
    assert twice.tests["both"].difference == 0 and twice.tests["both"].p == 1
    assert twice.components.error == pytest.approx(twice.components.cov1, rel=1e-9)
    # Order of cases and a monotone change of the scale change nothing.
    order = np.random.default_rng(0).permutation(len(truth))
    again = mrmc.analyse(mrmc.area(np.exp(ratings[..., order]), truth[order]))
    assert again.tests["both"].p == pytest.approx(found.tests["both"].p, rel=1e-9)
    # Three arms: F with two degrees of freedom above.
    three = mrmc.analyse(mrmc.area(np.concatenate([ratings, ratings[:1] % 3]), truth))
    assert three.tests["both"].df1 == 2 and 0 < three.tests["both"].p < 1
    with pytest.raises(ValueError, match="two arms"):
        mrmc.analyse(mrmc.area(ratings[:1], truth))
    assert mrmc.analyse(mrmc.area(ratings, truth)).plain()["tests"]["readers fixed"]["df2"] is None


def test_sensitivity_of_one_reader_twice_is_mcnemars_variance():
    """The difference of two shares of the same cases: the variance that McNemar's test uses, up to n / (n - 1)."""
    ratings, truth = drawn(3, normal=30, abnormal=40)
    called = ratings[:, :1] > 2
    right = called == truth
    covariance = mrmc.covariances(mrmc.sensitivity_or_specificity(right, truth, True), "delong")
    n = int(truth.sum())
    gained, lost = (int((right[i, 0] & ~right[1 - i, 0] & truth).sum()) for i in (0, 1))
    by_hand = ((gained + lost) / n - ((gained - lost) / n) ** 2) / (n - 1)
    assert covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1] == pytest.approx(by_hand, rel=1e-9)
    jack = mrmc.covariances(mrmc.sensitivity_or_specificity(right, truth, False))
    assert np.diag(jack) == pytest.approx([right[i, 0, ~truth].var() / (29) for i in (0, 1)], rel=0.03)


def test_power_grows_and_is_the_level_without_a_difference():
    parts = Expected(0.8).components(100)
    assert mrmc.power(0, parts, 0.001, 5) == pytest.approx(0.05, abs=1e-9)
    grown = [mrmc.power(d, parts, 0.001, 5) for d in (0.02, 0.05, 0.1)]
    assert grown == sorted(grown) and grown[-1] > 0.5
    rows = mrmc.sample_sizes(0.06, Expected(), readers=(3, 6), cases=(50, 200))
    assert [(r["readers"], r["cases"]) for r in rows] == [(3, 50), (3, 200), (6, 50), (6, 200)]
    assert rows[0]["power"] < min(rows[1]["power"], rows[2]["power"]) < rows[3]["power"]
    with pytest.raises(ValueError, match="difference"):
        mrmc.sample_sizes(0, Expected())


@pytest.mark.slow
def test_power_foretold_is_the_power_simulated():
    """Components as measured in simulated trials, put into the formula, foretell how many of others find the effect."""
    model, rng, truth = RoeMetz((0.75, 0.85)), np.random.default_rng(1), np.repeat([False, True], 40)
    measured = [mrmc.analyse(mrmc.area(model.ratings(rng, 5, 40, 40), truth)) for _ in range(200)]
    parts = Components(*np.mean([m.components for m in measured], 0))
    interaction = float(np.mean([m.interaction_variance for m in measured]))
    foretold = mrmc.power(0.1, parts, interaction, 5)
    assert rejected(model, 300, 5, 40, 40, seed=2)["both"] == pytest.approx(foretold, abs=0.08)


@pytest.mark.longest
@pytest.mark.parametrize("method", mrmc.METHODS)
def test_type_one_error_and_power_over_2000_trials(method):
    """Without an effect one trial in twenty finds one, at most; with 0.80 to 0.90 most do. The standard error of a
    share of 2,000 is 0.005 at 0.05."""
    null = rejected(RoeMetz((0.855, 0.855)), 2000, 5, 50, 50, seed=3, method=method)
    effect = rejected(RoeMetz((0.80, 0.90)), 2000, 5, 50, 50, seed=4, method=method)
    print(method, null, effect)
    assert 0.02 < null["both"] < 0.065
    assert effect["both"] > 0.5
    # Whoever takes these readers for all readers, or these cases for all cases, finds too much.
    assert null["readers fixed"] > null["both"] and null["cases fixed"] > null["both"]


def test_areas_and_points_are_those_of_scikit_learn_and_of_pairs():
    ratings, truth = drawn(2)
    figure = mrmc.area(ratings, truth)
    for i, j in np.ndindex(2, 4):
        assert figure.value[i, j] == pytest.approx(roc_auc_score(truth, ratings[i, j]), abs=1e-12)
        assert figure.value[i, j] == pytest.approx(pairs_area(ratings[i, j], truth), abs=1e-12)
        assert figure.normal[i, j].mean() == pytest.approx(figure.value[i, j])
        x, y = mrmc.roc_points(ratings[i, j], truth)
        fpr, tpr, _ = roc_curve(truth, ratings[i, j], drop_intermediate=False)
        assert (x, y) == (pytest.approx(fpr), pytest.approx(tpr))
        assert np.trapezoid(y, x) == pytest.approx(figure.value[i, j])
    with pytest.raises(ValueError, match="two normal"):
        mrmc.area(ratings[..., :3], np.array([True, False, False]))


def test_a_kernel_of_pairs_is_the_area():
    ratings, truth = drawn(4)
    low, high = ratings[..., ~truth][..., :, None], ratings[..., truth][..., None, :]
    whole, fast = mrmc.of_kernel((high > low) + 0.5 * (high == low)), mrmc.area(ratings, truth)
    for a, b in zip(whole, fast, strict=True):
        assert a == pytest.approx(b)


def test_an_interval_of_an_area_stays_within_it():
    low, high = mrmc.interval(0.97, 0.02)
    assert 0.88 < low < 0.97 < high < 1 and mrmc.interval(1.0, 0.0) == (1.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("b", [0.7, 1.0])
def test_a_binormal_curve_is_found_in_draws_of_one(b):
    rng, a = np.random.default_rng(0), 1.4
    normal, abnormal = rng.normal(0, 1, 3000), rng.normal(a / b, 1 / b, 3000)
    ratings = np.digitize(np.concatenate([normal, abnormal]), [-0.5, 0, 0.5, 1, 1.5, 2])
    fit = mrmc.binormal(ratings, np.repeat([False, True], 3000))
    area = stats.norm.cdf(a / np.hypot(1, b))
    assert (fit.a, fit.b) == pytest.approx((a, b), abs=0.1) and abs(fit.area - area) < 3 * fit.error
    assert fit.error == pytest.approx(0.0055, abs=0.002)
    x = np.linspace(0.001, 0.999, 2000)
    assert np.trapezoid(fit.curve(x), x) == pytest.approx(fit.area, abs=2e-3)


def test_no_binormal_curve_is_fitted_where_none_is():
    truth = np.repeat([False, True], 20)
    assert mrmc.binormal(truth * 1.0, truth) is None  # two categories
    assert mrmc.binormal(np.concatenate([np.arange(20) % 2, np.full(20, 3)]), truth) is None  # without an inner point


def test_helped_and_harmed_by_hand():
    truth = np.array([1, 1, 1, 0, 0, 0], bool)
    before = np.array([1, 0, 0, 0, 0, 1], bool)
    after = np.array([1, 1, 0, 1, 0, 0], bool)
    machine = np.array([1, 1, 0, 1, 1, 0], bool)
    found = analysis.changes(before, after, truth, machine)
    assert (found["helped"], found["harmed"], found["both_right"], found["both_wrong"]) == (2, 1, 2, 1)
    assert (found["misled"]["hits"], found["misled"]["n"]) == (1, 2)  # two right readers saw a wrong machine
    assert (found["corrected"]["hits"], found["corrected"]["n"]) == (2, 2)
    assert found["p"] == 1.0


def test_kappas_and_times():
    rng = np.random.default_rng(0)
    decisions = rng.integers(0, 3, (3, 50))
    assert analysis.kappa(decisions[0], decisions[0])["kappa"] == 1
    assert [row["readers"] for row in analysis.between(decisions, ["a", "b", "c"])] == [
        ["a", "b"], ["a", "c"], ["b", "c"],
    ]  # fmt: skip
    seconds = rng.lognormal(2, 0.3, (4, 30))
    ratio = analysis.time_ratio(seconds, 1.5 * seconds)
    assert (ratio["ratio"], ratio["low"]) == pytest.approx((1.5, 1.5)) and analysis.time_ratio(
        seconds[:1], seconds[:1]
    ) is None
    assert analysis.times({"x": np.array([1, np.nan, 3]), "y": np.array([np.nan])}) == {
        "x": {"median": 2.0, "low": 1.5, "high": 2.5, "n": 2}, "y": None,
    }  # fmt: skip

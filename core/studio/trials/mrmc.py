"""Readers' ROC curves, and the multi-reader multi-case (MRMC) analysis of figures of merit.

The area under the ROC curve, weighted JAFROC (analysis.py), sensitivity and specificity are two-sample U-statistics:
means over all pairs of a normal and an abnormal case. The placement of a case is the mean over the pairs that contain
it. `Figure` stores placements because the covariances of figures of merit are computed from them.

In each of t arms, r readers read all cases. The analysis follows Obuchowski and Rockette, Communications in Statistics
24 (1995) 285, and Hillis, Obuchowski, Schartz and Berbaum, Statistics in Medicine 24 (2005) 1579, with the degrees of
freedom of Hillis, ibid. 26 (2007) 596, and the power of Hillis et al., Academic Radiology 18 (2011) 129.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import scipy  # its modules load on first use; stats takes a second

from core.engine.metrics.compare import placements

BINS = 10  # maximum number of categories of ratings in a binormal fit
STEEP = 20.0  # slope beyond which a binormal fit is degenerate


class Figure(NamedTuple):
    """A figure of merit and the placements of the cases. `...` are leading dimensions, such as arms and readers.

    value: Figure of merit, `(...)`.
    normal: Placements of the n0 normal cases, `(..., n0)`; `abnormal` contains those of the n1 abnormal cases.
    """

    value: np.ndarray
    normal: np.ndarray
    abnormal: np.ndarray


def of_kernel(kernel: np.ndarray) -> Figure:
    """Returns the mean of a kernel over all pairs of a normal and an abnormal case, `(..., n0, n1)`, as a `Figure`."""
    return Figure(kernel.mean((-2, -1)), kernel.mean(-1), kernel.mean(-2))


def area(ratings: np.ndarray, truth: np.ndarray) -> Figure:
    """Returns the area under the empirical ROC curve of ratings `(..., n)`, where ties count half.

    truth: Whether each case is abnormal, bool `(n,)`. Raises ValueError if a class has fewer than two cases.
    """
    ratings, truth = np.asarray(ratings, np.float64), np.asarray(truth, bool)
    if min(truth.sum(), (~truth).sum()) < 2:
        raise ValueError("At least two normal and two abnormal cases are needed to compare readers.")
    flat = ratings.reshape(-1, ratings.shape[-1])
    both = [placements(row, truth) for row in flat]
    abnormal, normal = (np.stack(ratings_of).reshape(*ratings.shape[:-1], -1) for ratings_of in zip(*both, strict=True))
    return Figure(abnormal.mean(-1), normal, abnormal)


def sensitivity_or_specificity(right: np.ndarray, truth: np.ndarray, of: bool) -> Figure:
    """Returns the sensitivity if `of` is True, or else the specificity. `right` marks correct decisions, (..., n)."""
    right, truth = np.asarray(right, np.float64), np.asarray(truth, bool)
    selected = right[..., truth == of]
    value = selected.mean(-1)
    other = np.broadcast_to(value[..., None], (*value.shape, int((truth != of).sum())))
    return Figure(value, other, selected) if of else Figure(value, selected, other)


def roc_points(ratings: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the false and true positive rates of the empirical ROC curve, from (0, 0) to (1, 1)."""
    ratings, truth = np.asarray(ratings, np.float64), np.asarray(truth, bool)
    cuts = np.unique(ratings)[::-1]
    above = ratings[None, :] >= cuts[:, None]
    x, y = above[:, ~truth].mean(1), above[:, truth].mean(1)
    return np.concatenate([[0.0], x]), np.concatenate([[0.0], y])


def interval(value: float, error: float) -> tuple[float, float]:
    """Computes the 95 % interval of an area on the logit scale. For an area of 0 or 1, the interval has width 0."""
    if not 0 < value < 1 or error == 0:
        return value, value
    z = scipy.stats.norm.ppf(0.975) * error / (value * (1 - value))
    centre = math.log(value / (1 - value))
    return float(1 / (1 + math.exp(z - centre))), float(1 / (1 + math.exp(-z - centre)))


class Binormal(NamedTuple):
    """A binormal ROC curve: the true positive rate is Phi(a + b Phi^-1(x)), where x is the false positive rate.

    Phi is the standard normal distribution function. The area is Phi(a / sqrt(1 + b^2)); `error` is its standard error.
    """

    a: float
    b: float
    area: float
    error: float

    def curve(self, x: np.ndarray) -> np.ndarray:
        """Returns the true positive rates at the false positive rates x."""
        return np.asarray(scipy.stats.norm.cdf(self.a + self.b * scipy.stats.norm.ppf(x)))


def binormal(ratings: np.ndarray, truth: np.ndarray) -> Binormal | None:
    """Fits a binormal ROC curve to ordinal ratings `(n,)` by maximum likelihood (Dorfman and Alf 1969).

    More than BINS distinct ratings are first grouped into at most BINS categories of about equal size. Returns None if
    there are fewer than three categories, if all points of the empirical curve are on the border of the unit square, or
    if the fit is degenerate.
    """
    ratings, truth = np.asarray(ratings, np.float64), np.asarray(truth, bool)
    if len(np.unique(ratings)) > BINS:
        edges = np.unique(np.quantile(ratings, np.linspace(0, 1, BINS + 1)[1:-1]))
        ratings = np.searchsorted(edges, ratings, side="right").astype(float)
    levels, codes = np.unique(ratings, return_inverse=True)
    k = len(levels)
    counts = np.stack([np.bincount(codes[truth == kind], minlength=k) for kind in (False, True)])
    x, y = roc_points(ratings, truth)
    if k < 3 or not ((x > 0) & (x < 1) & (y > 0) & (y < 1)).any():
        return None

    def split(p: np.ndarray) -> tuple[float, float, np.ndarray]:
        return p[0], math.exp(p[1]), np.cumsum(np.concatenate([p[2:3], np.exp(p[3:])]))

    def loss(p: np.ndarray) -> float:
        a, b, cuts = split(p)
        at = np.stack([scipy.stats.norm.cdf(cuts), scipy.stats.norm.cdf(b * cuts - a)])
        shares = np.diff(at, axis=1, prepend=0.0, append=1.0)
        return float(-(counts * np.log(np.maximum(shares, 1e-12))).sum())

    below = (np.cumsum(counts[0])[:-1] + 0.5) / (counts[0].sum() + 1)
    start = np.maximum.accumulate(scipy.stats.norm.ppf(below) + 1e-3 * np.arange(k - 1))
    first = np.concatenate([[1.0, 0.0, start[0]], np.log(np.maximum(np.diff(start), 1e-3))])
    fit = scipy.optimize.minimize(
        loss, first, method="L-BFGS-B", bounds=[(-9, 9), (-3, 3), (-9, 9)] + [(-12, 3)] * (k - 2)
    )
    a, b, _ = split(fit.x)
    if not fit.success or abs(a) >= 8.9 or not 1 / STEEP < b < STEEP:
        return None
    slope = math.sqrt(1 + b * b)
    value = float(scipy.stats.norm.cdf(a / slope))
    with np.errstate(all="ignore"):
        covariance = np.linalg.pinv(_curvature(loss, fit.x), hermitian=True)[:2, :2]
    density = scipy.stats.norm.pdf(a / slope)
    gradient = density * np.array([1 / slope, -a * b * b / slope**3])  # with respect to a and log b
    variance = float(gradient @ covariance @ gradient)
    if not 0 < variance < 0.25:
        return None
    return Binormal(float(a), float(b), value, math.sqrt(variance))


def _curvature(loss, at: np.ndarray) -> np.ndarray:
    """Computes the matrix of second derivatives by central differences."""
    n, step = len(at), 1e-3
    moves = np.eye(n) * step
    out = np.empty((n, n))
    for i in range(n):
        for j in range(i, n):
            up, down = moves[i] + moves[j], moves[i] - moves[j]
            out[i, j] = out[j, i] = (loss(at + up) - loss(at + down) - loss(at - down) + loss(at - up)) / (4 * step**2)
    return out


METHODS = ("jackknife", "delong")
ALPHA = 0.05  # significance level
UPPER = 1 - ALPHA / 2  # quantile at the upper end of a 95 % interval
NOTHING = 1e-15  # smaller variances and differences are rounding errors


class Components(NamedTuple):
    """Variance components of a figure of merit: the error variance and three covariances.

    cov1: same reader, different arms; cov2: different readers, same arm; cov3: different readers, different arms.
    """

    error: float
    cov1: float
    cov2: float
    cov3: float

    @property
    def between_readers(self) -> float:
        """The covariance between readers due to common cases, cov2 - cov3, or 0 if this is negative."""
        return max(self.cov2 - self.cov3, 0.0)


@dataclass(frozen=True)
class Test:
    """Result of a test of whether the arms differ, with the 95 % interval of the difference.

    generalises: Readers and cases to which the result applies.
    difference: Mean of the first arm minus mean of the second arm; `error` is its standard error.
    df1: Degrees of freedom of the numerator; `df2` are those of the denominator, infinite for a chi-squared test.
    """

    generalises: str
    difference: float
    error: float
    low: float
    high: float
    statistic: float
    df1: float
    df2: float
    p: float


@dataclass(frozen=True)
class Analysis:
    """Result of the analysis of a figure of merit.

    values: Figure of merit of each reader in each arm, `(t, r)`.
    arms: Mean, standard error, degrees of freedom and interval of each arm, for random readers and cases.
    """

    values: np.ndarray
    components: Components
    ms: dict[str, float]
    reader_variance: float
    interaction_variance: float
    tests: dict[str, Test]
    arms: list[dict[str, float]]

    def plain(self) -> dict:
        """Returns the analysis as JSON-compatible values; infinite numbers in tests are replaced by None."""
        tests = {
            name: {k: None if v == math.inf else v for k, v in asdict(t).items()} for name, t in self.tests.items()
        }
        summary = {
            "ms": self.ms,
            "reader_variance": self.reader_variance,
            "interaction_variance": self.interaction_variance,
            "arms": self.arms,
        }
        return {"values": self.values.tolist(), "components": self.components._asdict(), "tests": tests, **summary}


def covariances(figure: Figure, method: str = "jackknife") -> np.ndarray:
    """Returns the covariance matrix `(m, m)` of m figures of merit, in the order of the flattened values.

    method: `jackknife` (leaving out one case at a time) or `delong` (DeLong, DeLong and Clarke-Pearson 1988). Raises
    ValueError for any other method.
    """
    normal = figure.normal.reshape(-1, figure.normal.shape[-1])
    abnormal = figure.abnormal.reshape(-1, figure.abnormal.shape[-1])
    n0, n1 = normal.shape[1], abnormal.shape[1]
    if method == "delong":
        return np.atleast_2d(np.cov(normal) / n0 + np.cov(abnormal) / n1)
    if method != "jackknife":
        raise ValueError(f"the estimator of covariances must be one of {', '.join(METHODS)}, not {method!r}")
    value = figure.value.reshape(-1, 1)
    without = np.concatenate([(n0 * value - normal) / (n0 - 1), (n1 * value - abnormal) / (n1 - 1)], 1)
    n = n0 + n1
    return np.atleast_2d(np.cov(without) * (n - 1) ** 2 / n)


def components(covariance: np.ndarray, t: int, r: int) -> Components:
    """Averages the entries of a covariance matrix `(t * r, t * r)` for t arms and r readers to variance components."""
    four = covariance.reshape(t, r, t, r)
    arm = np.eye(t, dtype=bool)[:, None, :, None]
    reader = np.eye(r, dtype=bool)[None, :, None, :]
    kinds = [(arm, reader), (~arm, reader), (arm, ~reader), (~arm, ~reader)]
    picked = [four[np.broadcast_to(a & b, four.shape)] for a, b in kinds]
    return Components(*(float(values.mean()) if values.size else 0.0 for values in picked))


def analyse(figure: Figure, method: str = "jackknife") -> Analysis:
    """Analyses a figure of merit of t arms and r readers, `(t, r)`. Raises ValueError if t or r is less than 2."""
    values = np.asarray(figure.value, np.float64)
    t, r = values.shape
    if t < 2 or r < 2:
        raise ValueError("The analysis needs at least two arms and two readers.")
    covariance = covariances(figure, method)
    variances = components(covariance, t, r)
    by_arm, by_reader, mean = values.mean(1), values.mean(0), values.mean()
    ms_t = float(r * ((by_arm - mean) ** 2).sum() / (t - 1))
    ms_r = float(t * ((by_reader - mean) ** 2).sum() / (r - 1))
    residuals = values - by_arm[:, None] - by_reader + mean
    ms_tr = float((residuals**2).sum() / ((t - 1) * (r - 1)))
    ms = {"arms": ms_t, "readers": ms_r, "arms x readers": ms_tr}
    tests = tests_of(by_arm, ms_t, ms_tr, variances, r)
    arms = [_arm(values[i], components(covariance.reshape(t, r, t, r)[i, :, i, :], 1, r)) for i in range(t)]
    of_readers = (ms_r - ms_tr) / t - variances.cov1 + variances.cov3
    of_both = ms_tr - variances.error + variances.cov1 + variances.cov2 - variances.cov3
    return Analysis(values, variances, ms, of_readers, of_both, tests, arms)


def tests_of(by_arm: np.ndarray, ms_t: float, ms_tr: float, parts: Components, r: int) -> dict[str, Test]:
    """Tests whether the arms differ: with random readers and cases, with fixed readers, and with fixed cases.

    by_arm: Mean of each arm over readers, `(t,)`.
    ms_t: Mean square of the arms; `ms_tr` is the mean square of the interaction of arms and r readers.
    parts: Variance components of the figure of merit.
    Returns the results with the keys "both", "readers fixed" and "cases fixed".
    """
    t = len(by_arm)
    difference = float(by_arm[0] - by_arm[1])
    shared = r * parts.between_readers
    denominator = ms_tr + shared
    df = (t - 1) * (r - 1)
    ddf = df * (denominator / ms_tr) ** 2 if ms_tr > NOTHING else math.inf
    fixed = parts.error - parts.cov1 + (r - 1) * parts.between_readers
    both = _test("readers and cases", difference, ms_t, denominator, t, r, ddf)
    readers = _test("these readers, other cases", difference, ms_t, fixed, t, r, math.inf)
    cases = _test("other readers, these cases", difference, ms_t, ms_tr, t, r, df)
    return {"both": both, "readers fixed": readers, "cases fixed": cases}


def _test(words: str, difference: float, ms_t: float, below: float, t: int, r: int, df2: float) -> Test:
    """Tests by F(t - 1, df2), or by chi-squared if df2 is infinite. If the variance `below` is 0, p is 0 or 1."""
    if below < NOTHING:
        same = abs(difference) < NOTHING
        return Test(words, difference, 0.0, difference, difference, 0.0 if same else math.inf, t - 1, df2, float(same))
    value, error = ms_t / below, math.sqrt(2 * below / r)
    if math.isinf(df2):
        p, quantile = scipy.stats.chi2.sf(value * (t - 1), t - 1), scipy.stats.norm.ppf(UPPER)
    else:
        p, quantile = scipy.stats.f.sf(value, t - 1, df2), scipy.stats.t.ppf(UPPER, df2)
    half = float(quantile) * error
    return Test(words, difference, error, difference - half, difference + half, value, t - 1, df2, float(p))


def _arm(values: np.ndarray, components: Components) -> dict[str, float]:
    r, ms = len(values), float(values.var(ddof=1))
    below = ms + r * max(components.cov2, 0.0)
    df = (below / ms) ** 2 * (r - 1) if ms > NOTHING else math.inf
    error = math.sqrt(max(below, 0.0) / r)
    half = error * float(scipy.stats.t.ppf(UPPER, df) if math.isfinite(df) else scipy.stats.norm.ppf(UPPER))
    mean = float(values.mean())
    return {"mean": mean, "error": error, "df": min(df, 1e9), "low": mean - half, "high": mean + half}


@dataclass(frozen=True)
class Expected:
    """Assumptions about a planned trial.

    area: Expected AUROC; `abnormal` is the fraction of abnormal cases.
    correlations: Covariances cov1, cov2 and cov3 of `Components`, each divided by the error variance.
    interaction: Variance of the interaction of arms and readers.
    `correlations` and `interaction` default to Van Dyke's data (OR-DBM MRMC); a pilot study gives better values.
    """

    area: float = 0.85
    abnormal: float = 0.5
    correlations: tuple[float, float, float] = (0.43, 0.43, 0.30)
    interaction: float = 0.0002

    def components(self, cases: int) -> Components:
        """Returns the variance components for a number of cases; the error variance is by Hanley and McNeil (1982)."""
        n1 = max(cases * self.abnormal, 1.0)
        n0 = max(cases - n1, 1.0)
        a = self.area
        q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
        error = (a * (1 - a) + (n1 - 1) * (q1 - a * a) + (n0 - 1) * (q2 - a * a)) / (n0 * n1)
        return Components(error, *(error * c for c in self.correlations))


def power(difference: float, parts: Components, interaction: float, r: int) -> float:
    """Returns the power to detect a difference between two arms, with r random readers (Hillis et al. 2011, Eq. 9)."""
    shared = parts.between_readers
    within = max(interaction, 0.0) + parts.error - parts.cov1 - shared
    total = within + r * shared
    if within <= 0:
        return 1.0 if difference else ALPHA
    df2 = (total / within) ** 2 * (r - 1)
    shift = r * difference**2 / (2 * total)
    return float(scipy.stats.ncf.sf(scipy.stats.f.isf(ALPHA, 1, df2), 1, df2, shift)) if shift else ALPHA


def sample_sizes(
    difference: float,
    expected: Expected,
    readers: tuple[int, ...] = (2, 3, 4, 5, 6, 8, 10, 15),
    cases: tuple[int, ...] = (40, 60, 80, 100, 150, 200, 300, 500),
) -> list[dict]:
    """Returns a trial's power for each combination of reader and case counts: [{"readers", "cases", "power"}].

    Raises ValueError if the absolute difference is not between 0 and 1.
    """
    if not 0 < abs(difference) < 1:
        raise ValueError("The difference in AUROC must be between 0 and 1, for example 0.05.")
    return [
        {"readers": r, "cases": n, "power": power(difference, expected.components(n), expected.interaction, r)}
        for r in readers
        for n in cases
    ]  # fmt: skip

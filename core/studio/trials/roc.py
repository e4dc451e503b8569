"""One reader's ROC curve in one arm: empirical and binormal, with intervals.

What is estimated of ratings here is a mean over pairs of a normal and an abnormal case, a U-statistic of two samples:
the area under the curve, and weighted JAFROC (localised.py), sensitivity and specificity as well. `Figure` keeps what
covariances need of it: the figure and each case's mean over its partners (its placement).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy  # its parts load when they are first used: stats takes a second

from core.engine.metrics.compare import placements

BINS = 10  # categories that continuous ratings are put into before a binormal curve is fitted
STEEP = 20.0  # a binormal fit whose slope or separation runs beyond it is degenerate


class Figure(NamedTuple):
    """A figure of merit and its placements. value: scalar or array (...); normal (..., n0); abnormal (..., n1)."""

    value: np.ndarray
    normal: np.ndarray
    abnormal: np.ndarray


def of_kernel(kernel: np.ndarray) -> Figure:
    """Builds a figure from its kernel (..., n0, n1): what each pair of a normal and an abnormal case counts."""
    return Figure(kernel.mean((-2, -1)), kernel.mean(-1), kernel.mean(-2))


def area(ratings: np.ndarray, truth: np.ndarray) -> Figure:
    """Computes the empirical area under the curve of ratings (..., n); truth bool (n,): abnormal. Ties count half.

    Raises ValueError unless there are two cases of each kind.
    """
    ratings, truth = np.asarray(ratings, np.float64), np.asarray(truth, bool)
    if min(truth.sum(), (~truth).sum()) < 2:
        raise ValueError("It takes two normal and two abnormal cases to compare readers.")
    flat = ratings.reshape(-1, ratings.shape[-1])
    both = [placements(row, truth) for row in flat]
    abnormal, normal = (np.stack(ratings_of).reshape(*ratings.shape[:-1], -1) for ratings_of in zip(*both, strict=True))
    return Figure(abnormal.mean(-1), normal, abnormal)


def share(right: np.ndarray, truth: np.ndarray, of: bool) -> Figure:
    """Computes sensitivity (of: True) or specificity (False): the share of right decisions (..., n) on such cases."""
    right, truth = np.asarray(right, np.float64), np.asarray(truth, bool)
    wanted = right[..., truth == of]
    value = wanted.mean(-1)
    other = np.broadcast_to(value[..., None], (*value.shape, int((truth != of).sum())))
    return Figure(value, other, wanted) if of else Figure(value, wanted, other)


def points(ratings: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the empirical curve, from (0, 0) to (1, 1): false and true positive shares for each different rating."""
    ratings, truth = np.asarray(ratings, np.float64), np.asarray(truth, bool)
    cuts = np.unique(ratings)[::-1]
    above = ratings[None, :] >= cuts[:, None]
    x, y = above[:, ~truth].mean(1), above[:, truth].mean(1)
    return np.concatenate([[0.0], x]), np.concatenate([[0.0], y])


def interval(value: float, error: float) -> tuple[float, float]:
    """Computes an area's 95 % interval on the logit scale, so that it stays within 0 and 1; there it has no width."""
    if not 0 < value < 1 or error == 0:
        return value, value
    z = scipy.stats.norm.ppf(0.975) * error / (value * (1 - value))
    centre = math.log(value / (1 - value))
    return float(1 / (1 + math.exp(z - centre))), float(1 / (1 + math.exp(-z - centre)))


class Binormal(NamedTuple):
    """The curve Phi(a + b Phi^-1(x)), its area Phi(a / sqrt(1 + b^2)) and that area's standard error."""

    a: float
    b: float
    area: float
    error: float

    def curve(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(scipy.stats.norm.cdf(self.a + self.b * scipy.stats.norm.ppf(x)))


def binormal(ratings: np.ndarray, truth: np.ndarray) -> Binormal | None:
    """Fits the maximum-likelihood binormal curve of ordinal ratings (Dorfman and Alf 1969); None if none fits.

    Ratings (n,) of more than BINS different values are put into BINS categories of about equal numbers first. None:
    fewer than three categories, no point of the curve within the unit square, or a fit that runs to a step.
    """
    ratings, truth = np.asarray(ratings, np.float64), np.asarray(truth, bool)
    if len(np.unique(ratings)) > BINS:
        edges = np.unique(np.quantile(ratings, np.linspace(0, 1, BINS + 1)[1:-1]))
        ratings = np.searchsorted(edges, ratings, side="right").astype(float)
    levels, codes = np.unique(ratings, return_inverse=True)
    k = len(levels)
    counts = np.stack([np.bincount(codes[truth == kind], minlength=k) for kind in (False, True)])
    x, y = points(ratings, truth)
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
    gradient = density * np.array([1 / slope, -a * b * b / slope**3])  # the second by log b
    variance = float(gradient @ covariance @ gradient)
    if not 0 < variance < 0.25:
        return None
    return Binormal(float(a), float(b), value, math.sqrt(variance))


def _curvature(loss, at: np.ndarray) -> np.ndarray:
    """Matrix of second derivatives by central differences."""
    n, step = len(at), 1e-3
    moves = np.eye(n) * step
    out = np.empty((n, n))
    for i in range(n):
        for j in range(i, n):
            up, down = moves[i] + moves[j], moves[i] - moves[j]
            out[i, j] = out[j, i] = (loss(at + up) - loss(at + down) - loss(at - down) + loss(at - up)) / (4 * step**2)
    return out

"""A reader's ROC curve in an arm: empirical and binormal, with intervals.

The area under the curve, weighted JAFROC (localised.py), sensitivity and specificity are all means over pairs of a
normal and an abnormal case, two-sample U-statistics. `Figure` holds such a figure and what its covariances need: each
case's mean over its partners (its placement).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy  # its modules load on first use; stats takes a second

from core.engine.metrics.compare import placements

BINS = 10  # number of categories of continuous ratings for a binormal fit
STEEP = 20.0  # slope beyond which a binormal fit is degenerate


class Figure(NamedTuple):
    """A figure of merit and its placements. value: scalar or array (...); normal (..., n0); abnormal (..., n1)."""

    value: np.ndarray
    normal: np.ndarray
    abnormal: np.ndarray


def of_kernel(kernel: np.ndarray) -> Figure:
    """Computes a figure from its kernel (..., n0, n1), the value of each pair of a normal and an abnormal case."""
    return Figure(kernel.mean((-2, -1)), kernel.mean(-1), kernel.mean(-2))


def area(ratings: np.ndarray, truth: np.ndarray) -> Figure:
    """Computes the empirical area under the curve of ratings (..., n), with ties counting half.

    truth: bool (n,), True if abnormal. Raises ValueError for fewer than two cases of either label.
    """
    ratings, truth = np.asarray(ratings, np.float64), np.asarray(truth, bool)
    if min(truth.sum(), (~truth).sum()) < 2:
        raise ValueError("At least two normal and two abnormal cases are needed to compare readers.")
    flat = ratings.reshape(-1, ratings.shape[-1])
    both = [placements(row, truth) for row in flat]
    abnormal, normal = (np.stack(ratings_of).reshape(*ratings.shape[:-1], -1) for ratings_of in zip(*both, strict=True))
    return Figure(abnormal.mean(-1), normal, abnormal)


def share(right: np.ndarray, truth: np.ndarray, of: bool) -> Figure:
    """Computes sensitivity (of: True) or specificity (of: False) from correct decisions `right`, (..., n)."""
    right, truth = np.asarray(right, np.float64), np.asarray(truth, bool)
    selected = right[..., truth == of]
    value = selected.mean(-1)
    other = np.broadcast_to(value[..., None], (*value.shape, int((truth != of).sum())))
    return Figure(value, other, selected) if of else Figure(value, selected, other)


def points(ratings: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the empirical curve from (0, 0) to (1, 1): false and true positive rates at each distinct rating."""
    ratings, truth = np.asarray(ratings, np.float64), np.asarray(truth, bool)
    cuts = np.unique(ratings)[::-1]
    above = ratings[None, :] >= cuts[:, None]
    x, y = above[:, ~truth].mean(1), above[:, truth].mean(1)
    return np.concatenate([[0.0], x]), np.concatenate([[0.0], y])


def interval(value: float, error: float) -> tuple[float, float]:
    """Computes the 95 % interval of an area on the logit scale, within 0 to 1; at 0 and 1 it has no width."""
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
    """Fits the maximum-likelihood binormal curve to ordinal ratings (n,) (Dorfman and Alf 1969).

    Ratings with more than BINS distinct values are first divided into BINS categories of about equal size. Returns None
    for fewer than three categories, if no point of the curve is inside the unit square, or if the fit is degenerate.
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

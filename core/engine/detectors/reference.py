"""PaDiM and IGD as the paper prints them (Sec. Anomaly Detection and Segmentation). Start reading here.

Everything is computed one position and one image at a time, in float64. Tests in tests/engine/detectors compare the
functions with `gaussian.py`, which computes PaDiM's distances from covariance blocks that several positions share, and
with `igd/model.py`, which computes IGD's estimates from blocks of images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any  # NumPy array, or CPU tensor without a gradient


def joined(maps: Sequence[Array]) -> np.ndarray:
    """Up-samples maps, `(N, c, h, w)`, fine to coarse, to the finest grid (nearest) and joins them, `(N, C, H, W)`."""
    height, width = maps[0].shape[2:]
    fine = []
    for features in (np.asarray(m, float) for m in maps):
        rows, columns = (np.arange(n) * m // n for n, m in zip((height, width), features.shape[2:], strict=True))
        fine.append(features[:, :, rows][..., columns])
    return np.concatenate(fine, 1)


def s_padim(normal: np.ndarray, x: np.ndarray, epsilon: float) -> np.ndarray:
    """Computes PaDiM's distance sqrt((x_w - mu_w)^T Sigma_w^-1 (x_w - mu_w)) at each position w (PMSACL Eq. 13).

    mu_w and Sigma_w are the mean and covariance of the normal maps `normal`, `(N, C, H, W)`, at the position w, with
    epsilon I added to Sigma_w. For maps x, `(B, C, H, W)`, the distances have the shape `(B, H, W)`.
    """
    s = np.zeros((len(x), *x.shape[2:]))
    for w in np.ndindex(x.shape[2:]):
        at = (slice(None), slice(None), *w)
        mu = normal[at].mean(0)
        inverse = np.linalg.inv(np.cov(normal[at], rowvar=False) + epsilon * np.eye(x.shape[1]))
        for b, x_w in enumerate(x[at]):
            s[(b, *w)] = math.sqrt((x_w - mu) @ inverse @ (x_w - mu))
    return s


def s_igd(l_rec: float, h: float, xi: float) -> float:
    """Computes IGD's score xi l_rec + (1 - xi) h_psi (PMSACL Eq. 10, which has 1 - h_psi instead; see `h_psi`)."""
    return xi * l_rec + (1 - xi) * h


def h_psi(z: Array, mu: Array, sigma_sq: float) -> float:
    """Computes 1 - exp(-|| z - mu_gamma ||^2 / sigma_gamma^2) for a code z = f_theta(x), `(Z,)` (PMSACL Eq. 12).

    h_psi is small for normal images, although Eq. 10 treats h_psi as their likelihood.
    """
    d = np.asarray(z, float) - np.asarray(mu, float)
    return 1 - math.exp(-(d @ d) / sigma_sq)


def mu_gamma(z: Array, least: float = 0.1) -> np.ndarray:
    """Computes the mean of codes z, `(N, Z)`, as in IGD's code: values below `least` in size are set to +-`least`."""
    mu = np.asarray(z, float).mean(0)
    return np.where(abs(mu) < least, np.where(mu < 0, -least, least), mu)


def sigma_gamma_sq(z: Array, mu: Array, batch: int) -> float:
    """Computes sigma_gamma^2, the mean over batches of max(1, mean of || z - mu_gamma ||^2 in the batch).

    For stability the paper multiplies the variance by a kappa in (0, 1] without giving a value. Here kappa is 1, and
    the lower limit of 1 is taken from IGD's released code.
    """
    squared = ((np.asarray(z, float) - np.asarray(mu, float)) ** 2).sum(1)
    means = [squared[start : start + batch].mean() for start in range(0, len(squared), batch)]
    return float(np.mean([max(1.0, mean) for mean in means]))

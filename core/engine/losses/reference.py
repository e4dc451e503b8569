"""The losses of PMSACL as the paper prints them, computed one sample and one term at a time. Start reading here.

All functions use the same arguments: z, `(M, D)`, the features f_theta(x^(n,l)) of a minibatch; labels, `(M,)`, the
class n of each feature; partners, `(M,)`, the index of the other weak view of the same x^(n); and c, `(k + 1, D)`, the
class centres. The losses used in training (`pmsacl.py`, `centred.py`) compute the same values to within 1e-5 in matrix
form (tests/engine/losses).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any  # NumPy array, or CPU tensor without a gradient


def f(z_i: Array, c_n: Array) -> np.ndarray:
    """Computes the centred feature f^(n,l) = (f_theta(x^(n,l)) - c_n) / || f_theta(x^(n,l)) - c_n ||_2 (Eq. 6)."""
    d = np.asarray(z_i, float) - np.asarray(c_n, float)
    return np.asarray(d / math.sqrt(d @ d))


def kappa(n: int, m: int, tau: float, alpha: float) -> float:
    """Computes kappa(n, m), which is 1 / (alpha tau) if n = m and 1 / tau otherwise (PMSACL Eq. 7)."""
    return 1 / (alpha * tau) if n == m else 1 / tau


def l_pmsacl(z: Array, labels: Array, partners: Array, c: Array, tau: float, alpha: float) -> float:
    """Computes l_PMSACL, the mean of the losses of all samples, `l_pmsacl_of` (PMSACL Eq. 4)."""
    return sum(l_pmsacl_of(i, z, labels, partners, c, tau, alpha) for i in range(len(z))) / len(z)


def l_pmsacl_of(i: int, z: Array, labels: Array, partners: Array, c: Array, tau: float, alpha: float) -> float:
    """Computes the loss of sample i, which its other view attracts and all other samples repel (PMSACL Eq. 5)."""
    f_i, f_p = f(z[i], c[labels[i]]), f(z[partners[i]], c[labels[partners[i]]])
    numerator = math.exp(f_i @ f_p / tau)
    denominator = 0.0
    for j in range(len(z)):
        if j != i:  # the indicator function excludes only the sample itself: the positive stays in the sum
            denominator += math.exp(kappa(labels[i], labels[j], tau, alpha) * (f_i @ f(z[j], c[labels[j]])))
    return -math.log(numerator / denominator)


def l_ctr(z: Array, labels: Array, c: Array) -> float:
    """Computes l_ctr, the mean of || f_theta(a(x)) - c_n ||^2 over all samples (PMSACL Eq. 3)."""
    total = 0.0
    for z_i, n in zip(z, labels, strict=True):
        d = np.asarray(z_i, float) - np.asarray(c[n], float)
        total += d @ d
    return total / len(z)


def cross_entropy(logits: Array, labels: Array) -> float:
    """Computes l_aug or l_pos, the mean of -log(softmax probability of the true class) (PMSACL Eqs. 8 and 9).

    The classes are the strong augmentations A_n in Eq. 8, and the relative positions of two patches in Eq. 9.
    """
    total = 0.0
    for row, n in zip(logits.tolist(), labels.tolist(), strict=True):
        total += -math.log(math.exp(row[n]) / sum(math.exp(v) for v in row))
    return total / len(labels)


def nt_xent(z: Array, partners: Sequence[int], tau: float) -> float:
    """Computes NT-Xent, a contrastive loss without classes (Chen et al. 2020, Eq. 1)."""
    u = _unit(z)
    total = 0.0
    for i, p in enumerate(partners):
        total += -math.log(math.exp(u[i] @ u[p] / tau) / sum(math.exp(u[i] @ u[j] / tau) for j in _others(z, i)))
    return total / len(z)


def supcon(z: Array, labels: Array, tau: float) -> float:
    """Computes the supervised loss L_out (Khosla et al. 2020, Eq. 2). Each class must have at least two samples."""
    u = _unit(z)
    total = 0.0
    for i in range(len(z)):
        denominator = sum(math.exp(u[i] @ u[j] / tau) for j in _others(z, i))
        positives = [j for j in _others(z, i) if labels[j] == labels[i]]
        total += -sum(math.log(math.exp(u[i] @ u[p] / tau) / denominator) for p in positives) / len(positives)
    return total / len(z)


def _unit(z: Array) -> list[np.ndarray]:
    return [f(row, np.zeros(len(row))) for row in z]


def _others(z: Array, i: int) -> list[int]:
    return [j for j in range(len(z)) if j != i]


def l_var(z: Array, labels: Array, epsilon: float) -> float:
    """Computes l_var, an additional term that is not in the paper.

    l_var is VICReg's hinge loss (Bardes, Ponce, LeCun 2022, Eq. 1) on the standard deviation of features within each
    class. `epsilon` is added to the variances. Classes with a single sample are ignored.
    """
    u = np.array(_unit(z)) * math.sqrt(z.shape[1])
    hinges = []
    for n in sorted(set(labels.tolist())):
        rows = u[[m == n for m in labels.tolist()]]
        if len(rows) > 1:
            hinges.append(np.maximum(0, 1 - np.sqrt(rows.var(0, ddof=1) + epsilon)).mean())
    return float(np.mean(hinges))

"""Detection of drift: tests whether new normal images still resemble the training images.

Sources: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2022), ch. 8 (conformal martingales; the
simple jumper); Vovk, Petej, Nouretdinov, Ahlberg, Carlsson and Gammerman, Retrain or not retrain (COPA 2021). Only
NumPy and SciPy are needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ALARM = 100.0  # alarm capital; without drift, at most 1 in ALARM series ever reaches it (Ville's inequality)
JUMP = 0.01  # fraction of the capital that changes its bet with each image
LEAST = 20  # smallest number of normal images in each group of a comparison
SMALL = 0.2  # Kolmogorov distance between two groups below which even a significant difference matters little


def online_p_values(held: np.ndarray, new: np.ndarray, seed: int = 0) -> np.ndarray:
    """Computes p-values `(m,)` of new scores in order of arrival, relative to held-out and earlier new scores.

    Ties are broken at random. If all scores are exchangeable, the p-values are independent and uniform over (0, 1).
    Relative to the held-out scores alone, they would not be independent.
    """
    rng, earlier = np.random.default_rng(seed), list(np.sort(np.asarray(held, np.float64)))
    out = np.empty(len(new))
    for t, score in enumerate(np.asarray(new, np.float64)):
        low, high = np.searchsorted(earlier, score, "left"), np.searchsorted(earlier, score, "right")
        out[t] = (len(earlier) - high + rng.random() * (high - low + 1)) / (len(earlier) + 1)
        earlier.insert(int(low), float(score))
    return out


def first_of_each(patients: np.ndarray) -> np.ndarray:
    """Returns the index of each patient's first image, in ascending order, given the images' patients `(n,)`.

    Images of one patient are alike, so they are not exchangeable with images of other patients. If the patients are
    exchangeable, their first images are exchangeable.
    """
    return np.sort(np.unique(patients, return_index=True)[1])


def jumper(p: np.ndarray, jump: float = JUMP) -> np.ndarray:
    """Computes the capital `(m,)` of the simple jumper, a conformal martingale, after each p-value in `p` `(m,)`.

    The jumper bets on small p-values, on large ones, or not at all. Without drift, its expected capital stays at 1.
    """
    bets = np.array([-1.0, 0.0, 1.0])
    capital, out = np.full(3, 1 / 3), np.empty(len(p))
    for t, value in enumerate(p):
        capital = (1 - jump) * capital + jump * capital.sum() / 3
        capital = capital * (1 + bets * (value - 0.5))
        out[t] = capital.sum()
    return out


def first_alarm(capital: np.ndarray, alarm: float = ALARM) -> int | None:
    """Returns the index of the first image at which the capital reaches `alarm`, or None if it never does."""
    over = np.flatnonzero(capital >= alarm)
    return int(over[0]) if len(over) else None


class Changed(NamedTuple):
    """Comparison of two groups of images by one measure: medians, Kolmogorov distance, Bonferroni-corrected p-value."""

    measure: str
    usual: float
    new: float
    distance: float
    p: float

    @property
    def matters(self) -> bool:
        """Whether the difference is both significant and large enough to matter."""
        return self.p < 0.01 and self.distance >= SMALL


def compare(usual: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> list[Changed]:
    """Compares usual images `(n,)` with new images `(m,)` by each measure; returns the largest difference first.

    The test is the two-sample Kolmogorov-Smirnov test. Measures with fewer than LEAST images in a group are skipped.
    """
    from scipy import stats  # imported here because it takes a second to load and is rarely needed

    names = [n for n in usual if n in new and min(len(usual[n]), len(new[n])) >= LEAST]
    tests = [stats.ks_2samp(usual[n], new[n]) for n in names]
    rows = [
        Changed(
            n, float(np.median(usual[n])), float(np.median(new[n])), float(t.statistic), min(t.pvalue * len(tests), 1)
        )
        for n, t in zip(names, tests, strict=True)
    ]
    return sorted(rows, key=lambda row: -row.distance)


def measures(images: np.ndarray) -> dict[str, np.ndarray]:
    """Computes brightness, contrast, red minus blue and sharpness, each `(N,)`, of images uint8 `(N, S, S, 3)`."""
    x = np.asarray(images, np.float32) / 255
    grey = x.mean(3)
    edges = np.abs(np.diff(grey, axis=1)).mean((1, 2)) + np.abs(np.diff(grey, axis=2)).mean((1, 2))
    return {
        "brightness": grey.mean((1, 2)),
        "contrast": grey.std((1, 2)),
        "red less blue": (x[..., 0] - x[..., 2]).mean((1, 2)),
        "sharpness": edges,
    }

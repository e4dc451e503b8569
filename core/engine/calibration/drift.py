"""Whether new normal images are still like those learnt from: tests by betting on conformal p-values, and plain drift.

Sources: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2022), ch. 8 (conformal martingales; the
simple jumper); Vovk, Petej, Nouretdinov, Ahlberg, Carlsson and Gammerman, Retrain or not retrain (COPA 2021).
Only NumPy and SciPy are needed here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ALARM = 100.0  # capital from which images are said to have changed: without a change it is ever reached at most once
#                in ALARM series (Ville's inequality)
JUMP = 0.01  # share of the capital that changes its bet at each image
LEAST = 20  # normal images that a comparison takes, on either side
SMALL = 0.2  # of the Kolmogorov distance of two groups: below it a difference, however certain, changes little


def online_p_values(held: np.ndarray, new: np.ndarray, seed: int = 0) -> np.ndarray:
    """Computes p-values (m,) of new scores in the order in which they came, each among the held-out and all before.

    Ties are broken at random. The p-values are independent and uniform over (0, 1) as long as all scores come in an
    exchangeable order, however few are held out; p-values among the held-out ones alone are not.
    """
    rng, known = np.random.default_rng(seed), list(np.sort(np.asarray(held, np.float64)))
    out = np.empty(len(new))
    for t, score in enumerate(np.asarray(new, np.float64)):
        low, high = np.searchsorted(known, score, "left"), np.searchsorted(known, score, "right")
        out[t] = (len(known) - high + rng.random() * (high - low + 1)) / (len(known) + 1)
        known.insert(int(low), float(score))
    return out


def first_of_each(whose: np.ndarray) -> np.ndarray:
    """Finds the place of each patient's first image, in the order in which they came; whose: a patient's number (n,).

    Images of one patient are alike, and so not exchangeable with those of others; one image of each, taken by the same
    rule among the held-out and the new, is exchangeable as far as patients are.
    """
    return np.sort(np.unique(whose, return_index=True)[1])


def jumper(p: np.ndarray, jump: float = JUMP) -> np.ndarray:
    """Computes the capital (m,) after each p-value by the simple jumper, which bets on small, on large, and on neither.

    It begins at 1, and without a change its mean stays 1, whatever the distribution of scores.
    """
    bets = np.array([-1.0, 0.0, 1.0])
    capital, out = np.full(3, 1 / 3), np.empty(len(p))
    for t, value in enumerate(p):
        capital = (1 - jump) * capital + jump * capital.sum() / 3
        capital = capital * (1 + bets * (value - 0.5))
        out[t] = capital.sum()
    return out


def first_alarm(capital: np.ndarray, alarm: float = ALARM) -> int | None:
    """Returns the place of the first image at which the capital reaches the alarm; None if it never does."""
    over = np.flatnonzero(capital >= alarm)
    return int(over[0]) if len(over) else None


class Changed(NamedTuple):
    """One measure of two groups of images. usual, new: medians; distance: Kolmogorov's; p: corrected by Bonferroni."""

    measure: str
    usual: float
    new: float
    distance: float
    p: float

    @property
    def matters(self) -> bool:
        return self.p < 0.01 and self.distance >= SMALL


def compare(usual: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> list[Changed]:
    """Compares each measure of normal images (n,) with that of new ones (m,); the one that differs most comes first.

    Medians, and the two-sample Kolmogorov-Smirnov test. Empty with fewer than LEAST images on either side.
    """
    from scipy import stats  # here: it takes a second to load, and few ask for it

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
    """Computes plain measures of images uint8 (N, S, S, 3): brightness, contrast, colour and sharpness, each (N,)."""
    x = np.asarray(images, np.float32) / 255
    grey = x.mean(3)
    edges = np.abs(np.diff(grey, axis=1)).mean((1, 2)) + np.abs(np.diff(grey, axis=2)).mean((1, 2))
    return {
        "brightness": grey.mean((1, 2)),
        "contrast": grey.std((1, 2)),
        "red less blue": (x[..., 0] - x[..., 2]).mean((1, 2)),
        "sharpness": edges,
    }

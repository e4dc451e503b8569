"""Figures on readers: agreement within and between them, reading time, and changes of mind due to the AI result."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy  # its modules load on first use; stats takes a second

from core.studio.review.agreement import cohen
from core.studio.review.results import wilson


def kappa(first: np.ndarray, second: np.ndarray, kinds: int = 3) -> dict:
    """Computes Cohen's kappa, with its interval, of two lists of decisions (n,) coded 0 to kinds - 1."""
    table = np.zeros((kinds, kinds), int)
    np.add.at(table, (np.asarray(first, int), np.asarray(second, int)), 1)
    return cohen(table)


def between(decisions: np.ndarray, names: list[str]) -> list[dict]:
    """Computes the kappa of each pair of readers in an arm. decisions: (r, n)."""
    pairs = itertools.combinations(range(len(names)), 2)
    return [{"readers": [names[a], names[b]], **kappa(decisions[a], decisions[b])} for a, b in pairs]


def changes(
    before: np.ndarray, after: np.ndarray, truth: np.ndarray, machine: np.ndarray | None = None
) -> dict[str, Any]:
    """Counts how often the AI result helped or harmed a reader.

    Args:
        before: bool (n,), whether the unaided decision is abnormal.
        after: bool (n,), the aided decision.
        truth: bool (n,), the ground truth.
        machine: bool (n,), the AI result, or None.

    Returns:
        The numbers of cases; `helped`: only the aided decision is correct; `harmed`: only the unaided one is; p: of the
        exact McNemar test of the two. With `machine` also `misled`, the share of correct decisions with a wrong AI
        result that became wrong (automation bias), and `corrected`, the share of wrong decisions with a correct AI
        result that became correct.
    """
    correct_before, correct_after = before == truth, after == truth
    helped, harmed = int((~correct_before & correct_after).sum()), int((correct_before & ~correct_after).sum())
    moved = helped + harmed
    out: dict[str, Any] = {
        "both_right": int((correct_before & correct_after).sum()),
        "both_wrong": int((~correct_before & ~correct_after).sum()),
        "helped": helped,
        "harmed": harmed,
        "p": float(scipy.stats.binomtest(helped, moved, 0.5).pvalue) if moved else 1.0,
    }
    if machine is not None:
        bad, good = correct_before & (machine != truth), ~correct_before & (machine == truth)
        out["misled"] = wilson(int((bad & ~correct_after).sum()), int(bad.sum()))
        out["corrected"] = wilson(int((good & correct_after).sum()), int(good.sum()))
    return out


def times(seconds: Mapping[str, np.ndarray]) -> dict[str, dict | None]:
    """Computes {"median", "low", "high" (quartiles), "n"} of the seconds per case by arm, None without any times."""
    out: dict[str, dict | None] = {}
    for arm, values in seconds.items():
        finite = np.asarray(values, float)[np.isfinite(values)]
        low, middle, high = np.percentile(finite, (25, 50, 75)) if len(finite) else (0.0, 0.0, 0.0)
        row = {"median": float(middle), "low": float(low), "high": float(high), "n": len(finite)}
        out[arm] = row if len(finite) else None
    return out


def time_ratio(first: np.ndarray, second: np.ndarray) -> dict | None:
    """Computes the ratio of reading times, second arm to first, from seconds (r, n).

    It is a geometric mean over readers with a t interval; None if the times of fewer than two readers are known.
    """
    with np.errstate(all="ignore"):
        logs = np.log(second) - np.log(first)
    means = np.array([row[np.isfinite(row)].mean() for row in logs if np.isfinite(row).any()])
    if len(means) < 2:
        return None
    half = scipy.stats.t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
    ratio, low, high = np.exp([means.mean(), means.mean() - half, means.mean() + half])
    return {"ratio": float(ratio), "low": float(low), "high": float(high), "readers": len(means)}

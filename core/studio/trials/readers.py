"""What readers do beside their ratings: agreement with themselves and others, time, minds changed by the machine."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy  # its parts load when they are first used: stats takes a second

from core.studio.review.agreement import cohen
from core.studio.review.results import wilson


def kappa(first: np.ndarray, second: np.ndarray, kinds: int = 3) -> dict:
    """Computes Cohen's kappa of two lists of decisions (n,), codes 0 to kinds - 1, with its interval."""
    table = np.zeros((kinds, kinds), int)
    np.add.at(table, (np.asarray(first, int), np.asarray(second, int)), 1)
    return cohen(table)


def between(decisions: np.ndarray, names: list[str]) -> list[dict]:
    """Computes the kappa of each pair of readers in one arm; decisions (r, n)."""
    pairs = itertools.combinations(range(len(names)), 2)
    return [{"readers": [names[a], names[b]], **kappa(decisions[a], decisions[b])} for a, b in pairs]


def changes(
    before: np.ndarray, after: np.ndarray, truth: np.ndarray, machine: np.ndarray | None = None
) -> dict[str, Any]:
    """Counts how often the machine helped and harmed one reader. All arguments are bool (n,), abnormal or not.

    before, after: without the machine and with it. helped: wrong without, right with it; harmed: the other way round.
    p: of the exact McNemar test of the two. machine: what it says, where it says anything: then `misled` counts
    decisions that were right and became the machine's wrong one, of those right ones that a wrong machine was shown for
    (automation bias), and `corrected` those that were wrong and became its right one.
    """
    right, still = before == truth, after == truth
    helped, harmed = int((~right & still).sum()), int((right & ~still).sum())
    moved = helped + harmed
    out: dict[str, Any] = {
        "both_right": int((right & still).sum()),
        "both_wrong": int((~right & ~still).sum()),
        "helped": helped,
        "harmed": harmed,
        "p": float(scipy.stats.binomtest(helped, moved, 0.5).pvalue) if moved else 1.0,
    }
    if machine is not None:
        bad, good = right & (machine != truth), ~right & (machine == truth)
        out["misled"] = wilson(int((bad & ~still).sum()), int(bad.sum()))
        out["corrected"] = wilson(int((good & still).sum()), int(good.sum()))
    return out


def times(seconds: Mapping[str, np.ndarray]) -> dict[str, dict | None]:
    """Computes by arm {"median", "low", "high" (quartiles), "n"} of seconds a case; None where none was taken."""
    out: dict[str, dict | None] = {}
    for arm, taken in seconds.items():
        known = np.asarray(taken, float)[np.isfinite(taken)]
        low, middle, high = np.percentile(known, (25, 50, 75)) if len(known) else (0.0, 0.0, 0.0)
        row = {"median": float(middle), "low": float(low), "high": float(high), "n": len(known)}
        out[arm] = row if len(known) else None
    return out


def time_ratio(first: np.ndarray, second: np.ndarray) -> dict | None:
    """Computes how many times as long the second arm takes, a mean over readers; first, second: seconds (r, n).

    It is a geometric mean, with the t interval over readers. None with fewer than two readers whose times are known.
    """
    with np.errstate(all="ignore"):
        logs = np.log(second) - np.log(first)
    means = np.array([row[np.isfinite(row)].mean() for row in logs if np.isfinite(row).any()])
    if len(means) < 2:
        return None
    half = scipy.stats.t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
    ratio, low, high = np.exp([means.mean(), means.mean() - half, means.mean() + half])
    return {"ratio": float(ratio), "low": float(low), "high": float(high), "readers": len(means)}

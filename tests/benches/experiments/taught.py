"""What rows of the experiment of marks say: how many marks each way needed, and which way outlines better."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from core.engine.detectors.learnt.config import plural
from core.engine.metrics import bootstrap
from core.engine.metrics.compare import paired_bootstrap
from core.studio.report.arms import Arm
from tests.benches.experiments.marks import ORDERS, PAIRS, STEPS, marks

ENOUGH = (0.6, 0.4)  # Dice, for which marks are counted


@dataclass(frozen=True)
class Gap:
    """Mean difference of the Dice of the same images, of `better` less that of `than`, over the seeds both have.

    interval: 95 %, and p: two-sided, by drawing patients again.
    """

    better: str
    than: str
    seeds: int
    images: int
    difference: float
    interval: tuple[float, float]
    p: float

    def __str__(self) -> str:
        low, high = self.interval
        sure = f"95 % {low:+.3f} to {high:+.3f}, p {self.p:.3f}; {self.images} images, {plural(self.seeds, 'draw')}"
        return f"{self.better}, less {self.than}: Dice {self.difference:+.3f} ({sure})"


def gaps(rows: list[dict], pairs: list[tuple[str, str]] = PAIRS) -> list[Gap]:
    """Compares pairs of ways, (better, than) by their labels; those without a seed in common are left out.

    A case without a Dice, whose lesion lies outside the region of interest, has no part in it.
    """
    by_label: dict[str, dict[int, dict]] = {}
    for row in rows:
        by_label.setdefault(row["label"], {})[row["seed"]] = row
    compared = []
    for better, than in pairs:
        both = sorted(set(by_label.get(better, {})) & set(by_label.get(than, {})))
        if not both:
            continue
        ours, theirs = (np.mean([by_label[x][seed]["cases"] for seed in both], 0) for x in (better, than))
        known = np.isfinite(ours) & np.isfinite(theirs)
        ours, theirs, whose = (np.asarray(x)[known] for x in (ours, theirs, by_label[better][both[0]]["whose"]))
        interval = bootstrap.interval_of_mean(ours - theirs, whose)
        if interval is not None:
            difference, p = paired_bootstrap(ours, theirs, whose)
            compared.append(Gap(better, than, len(both), len(ours), difference, interval, p))
    return compared


def needed(arms: list[Arm], rows: list[dict], dice: float = ENOUGH[0]) -> dict[str, list[float]]:
    """Finds how many marks each way, by its label, needed for a Dice: one number a seed, between counts in proportion.

    Of seeds that have rows of the way with more than one count of marks. Where the smallest count has reached the Dice
    it is that count; where none has it is infinite. The first of STEPS is by chance in every order.
    """
    counts = {arm.label: int(arm.fit.get("marks", 0)) for arm in arms}
    curves: dict[str, dict[int, list[tuple[int, float]]]] = {}
    for row in rows:
        if count := counts.get(row["label"]):
            way = row["label"].replace(f"{count} marks", "marks", 1)
            orders = [f"{way}, by {order}" for order in ORDERS] if count == STEPS[0] else []
            for each in (way, *orders):
                curves.setdefault(each, {}).setdefault(row["seed"], []).append((count, row["dice"]))
    reached = {
        way: [_reached(sorted(curve), dice) for curve in by_seed.values() if len(curve) > 1]
        for way, by_seed in curves.items()
    }
    return {way: numbers for way, numbers in reached.items() if numbers}


def _reached(curve: list[tuple[int, float]], dice: float) -> float:
    """The count at which a curve of (count, Dice), ascending in count, first reaches a Dice."""
    if curve[0][1] >= dice:
        return float(curve[0][0])
    for (few, low), (more, high) in itertools.pairwise(curve):
        if high >= dice:
            return few + (more - few) * (dice - low) / (high - low)
    return float("inf")


def words(rows: list[dict]) -> str:
    """Writes both, a line each."""
    lines = [str(gap) for gap in gaps(rows)]
    for dice in ENOUGH:
        for way, numbers in needed(marks(), rows, dice).items():
            middle, least, most = (_count(f(numbers)) for f in (np.median, min, max))
            draws = f"the median of {plural(len(numbers), 'draw')} ({least} to {most})"
            lines.append(f"{way}: Dice {dice} needs {middle}, {draws}")
    return "\n".join(lines)


def _count(marks: float) -> str:
    return "more than there were" if np.isinf(marks) else f"{marks:.1f}"

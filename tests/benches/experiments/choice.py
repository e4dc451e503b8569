"""Which arm of an experiment to trust on images that had no say in it: chosen leaving one set out at a time.

An arm that is chosen on the images on which it is reported looks better than it is. Here the arm for each set is that
of the best mean rank on all *other* sets, and the figures shown are those of the set that was left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from tests.benches.experiments.report import HEADS

METRICS = ("auroc", "pixel_auroc", "dice", "pro")


@dataclass(frozen=True)
class Choice:
    """The arm for one set that was left out.

    ranks: arm -> mean rank on the other sets, 1 is best. figures: metric -> the chosen arm's on the set left out;
    best: metric -> the largest that any arm has there, which no rule could beat.
    """

    left_out: str
    chosen: str
    ranks: dict[str, float]
    figures: dict[str, float]
    best: dict[str, float]


def mean_ranks(
    lines: Mapping[str, Sequence[Mapping]], arms: Sequence[str], metrics: Sequence[str] = METRICS
) -> dict[str, float]:
    """Computes each arm's rank (1 is best, ties share), averaged over the metrics of each set, then over the sets.

    lines: set -> lines of `report.summarise` of one region of interest. A metric that a set has not (it has no masks)
    does not count there. Raises ValueError if no set has any of the metrics.
    """
    per_set = []
    for listed in lines.values():
        by_label = {line["label"]: line for line in listed}
        ranks = [
            rankdata([-by_label[arm][metric] for arm in arms])
            for metric in metrics
            if all(by_label[arm].get(metric) is not None for arm in arms)
        ]
        if ranks:
            per_set.append(np.mean(ranks, 0))
    if not per_set:
        raise ValueError(f"no set has any of {', '.join(metrics)} for all arms")
    return dict(zip(arms, map(float, np.mean(per_set, 0)), strict=True))


def leave_one_out(
    lines: Mapping[str, Sequence[Mapping]], arms: Sequence[str] = (), metrics: Sequence[str] = METRICS
) -> list[Choice]:
    """Chooses an arm for each set by the figures of the others.

    arms: labels to choose among (default: those all sets have). Raises ValueError with fewer than two sets, or if they
    have no arm in common.
    """
    if len(lines) < 2:
        raise ValueError("leaving one set out takes the figures of two sets or more")
    common = [a for a in _labels(next(iter(lines.values()))) if all(a in _labels(listed) for listed in lines.values())]
    arms = [a for a in arms or common if a in common]
    if not arms:
        raise ValueError("the sets have no arm in common")
    choices = []
    for left_out, listed in lines.items():
        ranks = mean_ranks({name: others for name, others in lines.items() if name != left_out}, arms, metrics)
        chosen = min(arms, key=lambda arm: ranks[arm])
        here = {line["label"]: line for line in listed}
        has = [m for m in metrics if here[chosen].get(m) is not None]
        figures = {m: here[chosen][m] for m in has}
        choices.append(Choice(left_out, chosen, ranks, figures, {m: max(here[a][m] for a in arms) for m in has}))
    return choices


def markdown(choices: Sequence[Choice]) -> str:
    """Writes a table: set left out, arm that the others choose, its figures there, in brackets the best of any arm."""
    shown = [m for m in METRICS if any(m in c.figures for c in choices)]
    out = ["| left out | chosen by the others | " + " | ".join(HEADS[m] for m in shown) + " |"]
    out.append("|" + "---|" * (len(shown) + 2))
    for c in choices:
        cells = [f"{c.figures[m]:.3f} ({c.best[m]:.3f})" if m in c.figures else "-" for m in shown]
        out.append("| " + " | ".join([c.left_out, c.chosen, *cells]) + " |")
    return "\n".join(out)


def _labels(lines: Sequence[Mapping]) -> list[str]:
    return [line["label"] for line in lines]

"""Free-response reading: marks that hit a lesion or miss; FROC, AFROC, and weighted JAFROC as a figure of merit.

Sources: Chakraborty and Berbaum, Medical Physics 31 (2004) 2313; weights of lesions: Chakraborty and Zhai, ibid. 43
(2016) 5051. A lesion that no mark hits, and a case without a miss, have the rating minus infinity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.studio.trials.options import RULES
from core.studio.trials.roc import Figure, of_kernel

OVERLAP = 0.1  # intersection over union from which a mask hits


@dataclass(frozen=True)
class Mark:
    """A place that a reader marked. at: x, y in pixels; mask: bool (H, W), where one was drawn."""

    rating: float
    at: tuple[float, float]
    mask: np.ndarray | None = None


@dataclass(frozen=True)
class Marked:
    """One reader's marks on one case: the best rating of each lesion (n,), and ratings of what misses."""

    lesions: tuple[float, ...]
    misses: tuple[float, ...]


def hits(marks: Sequence[Mark], lesions: Sequence[np.ndarray], rule: str) -> Marked:
    """Finds which lesions bool (H, W) the marks hit.

    Several marks on one lesion count as its highest; none counts twice: a mark that could hit several lesions hits the
    one that it overlaps most, or the first that holds its centre. Raises ValueError for another rule than those of
    RULES.
    """
    if rule not in RULES:
        raise ValueError(f"a mark hits by one of {', '.join(RULES)}, not {rule!r}")
    best, misses = [-np.inf] * len(lesions), []
    for mark in marks:
        which = _hit(mark, lesions, rule)
        if which is None:
            misses.append(mark.rating)
        else:
            best[which] = max(best[which], mark.rating)
    return Marked(tuple(best), tuple(misses))


def _hit(mark: Mark, lesions: Sequence[np.ndarray], rule: str) -> int | None:
    x, y = (int(np.floor(v)) for v in mark.at)
    if rule == "centre" or mark.mask is None:
        inside = (i for i, m in enumerate(lesions) if 0 <= y < m.shape[0] and 0 <= x < m.shape[1] and m[y, x])
        return next(inside, None)
    overlaps = [float((mark.mask & m).sum() / max((mark.mask | m).sum(), 1)) for m in lesions]
    which = int(np.argmax(overlaps)) if overlaps else -1
    return which if which >= 0 and overlaps[which] >= OVERLAP else None


def jafroc(read: Sequence[Marked], truth: np.ndarray, weights: Mapping[int, Sequence[float]] | None = None) -> Figure:
    """Computes weighted JAFROC of one reader in one arm. truth bool (n,): which cases have lesions.

    The chance that a lesion, drawn by its weight from an abnormal case, is rated above the highest miss of a normal
    case, ties counting half. weights: by the place of a case; without them the lesions of a case weigh alike, and each
    case's sum is 1. Raises ValueError for weights that do not sum to 1.
    """
    truth = np.asarray(truth, bool)
    normal = np.array([max(case.misses, default=-np.inf) for case, sick in zip(read, truth, strict=True) if not sick])
    columns = []
    for place in map(int, np.flatnonzero(truth)):
        rated = np.array(read[place].lesions)
        if not len(rated):
            raise ValueError("An abnormal case has no lesion to hit.")
        w = np.array(weights[place]) if weights and place in weights else np.full(len(rated), 1 / len(rated))
        if len(w) != len(rated) or abs(w.sum() - 1) > 1e-9:
            raise ValueError("The weights of a case's lesions sum to 1.")
        above = (rated > normal[:, None]) + 0.5 * (rated == normal[:, None])
        columns.append(above @ w)
    return of_kernel(np.stack(columns, 1))


def froc(read: Sequence[Marked], truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the FROC curve: misses per image (all images count) and the share of lesions that are hit.

    Both grow as the rating from which marks count falls.
    """
    rated = np.array([v for case in read for v in case.lesions])
    missed = np.array([v for case in read for v in case.misses])
    cuts = _cuts(np.concatenate([rated, missed]))
    x = (missed[None, :] >= cuts[:, None]).sum(1) / len(truth)
    y = (rated[None, :] >= cuts[:, None]).mean(1) if len(rated) else np.zeros(len(cuts))
    return np.concatenate([[0.0], x]), np.concatenate([[0.0], y])


def afroc(read: Sequence[Marked], truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the AFROC curve: the share of normal cases with a miss, and of lesions that are hit.

    Of lesions: the share of each case's, averaged over cases. The curve ends with the straight line to (1, 1).
    The area below is `jafroc`'s with equal weights.
    """
    truth = np.asarray(truth, bool)
    normal = np.array([max(c.misses, default=-np.inf) for c, sick in zip(read, truth, strict=True) if not sick])
    sick = [np.array(c.lesions) for c, is_sick in zip(read, truth, strict=True) if is_sick]
    rated = np.concatenate(sick) if sick else np.zeros(0)
    w = np.concatenate([np.full(len(c), 1 / (len(c) * len(sick))) for c in sick])
    cuts = _cuts(np.concatenate([rated, normal]))
    x = (normal[None, :] >= cuts[:, None]).mean(1)
    y = ((rated[None, :] >= cuts[:, None]) * w).sum(1)
    return np.concatenate([[0.0], x, [1.0]]), np.concatenate([[0.0], y, [1.0]])


def _cuts(ratings: np.ndarray) -> np.ndarray:
    return np.unique(ratings[np.isfinite(ratings)])[::-1]

"""Free-response reading: hits and misses of marks; FROC, AFROC, and weighted JAFROC as a figure of merit.

Sources: Chakraborty and Berbaum, Medical Physics 31 (2004) 2313; weights of lesions: Chakraborty and Zhai, ibid. 43
(2016) 5051. A lesion without a hit and a case without a miss have the rating minus infinity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.studio.trials.options import RULES
from core.studio.trials.roc import Figure, of_kernel

OVERLAP = 0.1  # least intersection over union of a hit


@dataclass(frozen=True)
class Mark:
    """A reader's mark. at: its centre (x, y) in pixels. mask: bool (H, W), or None for a point."""

    rating: float
    at: tuple[float, float]
    mask: np.ndarray | None = None


@dataclass(frozen=True)
class Marked:
    """A reader's marks on a case: the highest rating of each lesion (n,), and the ratings of misses."""

    lesions: tuple[float, ...]
    misses: tuple[float, ...]


def hits(marks: Sequence[Mark], lesions: Sequence[np.ndarray], rule: str) -> Marked:
    """Assigns marks to the lesions, bool (H, W), that they hit.

    A mark hits at most one lesion: the one with the largest overlap, or the first that contains its centre. If several
    marks hit a lesion, the highest rating counts.

    Raises ValueError if `rule` is not in RULES.
    """
    if rule not in RULES:
        raise ValueError(f"the rule of a hit must be one of {', '.join(RULES)}, not {rule!r}")
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
    """Computes weighted JAFROC of a reader in an arm.

    It is the probability that a lesion, sampled by its weight from an abnormal case, has a higher rating than the
    highest miss of a normal case, ties counting half.

    Args:
        read: The marks on n cases.
        truth: bool (n,), which cases have lesions.
        weights: The weights of a case's lesions by its index, with the sum 1; by default they are equal.

    Raises:
        ValueError: If an abnormal case has no lesion, or weights do not sum to 1.
    """
    truth = np.asarray(truth, bool)
    normal = np.array([max(case.misses, default=-np.inf) for case, sick in zip(read, truth, strict=True) if not sick])
    columns = []
    for index in map(int, np.flatnonzero(truth)):
        rated = np.array(read[index].lesions)
        if not len(rated):
            raise ValueError("An abnormal case has no lesion.")
        w = np.array(weights[index]) if weights and index in weights else np.full(len(rated), 1 / len(rated))
        if len(w) != len(rated) or abs(w.sum() - 1) > 1e-9:
            raise ValueError("The weights of a case's lesions must sum to 1.")
        above = (rated > normal[:, None]) + 0.5 * (rated == normal[:, None])
        columns.append(above @ w)
    return of_kernel(np.stack(columns, 1))


def froc(read: Sequence[Marked], truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the FROC curve: misses per image (of all images) and the share of lesions hit, by descending rating."""
    rated = np.array([v for case in read for v in case.lesions])
    missed = np.array([v for case in read for v in case.misses])
    cuts = _cuts(np.concatenate([rated, missed]))
    x = (missed[None, :] >= cuts[:, None]).sum(1) / len(truth)
    y = (rated[None, :] >= cuts[:, None]).mean(1) if len(rated) else np.zeros(len(cuts))
    return np.concatenate([[0.0], x]), np.concatenate([[0.0], y])


def afroc(read: Sequence[Marked], truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the AFROC curve: the share of normal cases with a miss, and the share of lesions hit.

    The latter is averaged over cases. The curve ends with a straight line to (1, 1), and the area below it is `jafroc`
    with equal weights.
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

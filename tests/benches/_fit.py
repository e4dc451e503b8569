"""The fit of region.py's weights: simulated clicks on images whose lesions are known, and logistic regression.

The clicks that come second and later depend on what the weights before them answered, so it goes in rounds, and every
round learns from all before it (DAgger: Ross et al., AISTATS 2011).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from sklearn.linear_model import LogisticRegression

from core.engine.segment.region import Click, Lattice, evidence, innermost, region

FIRST = (-2.0, *(0.0,) * 13, -2.0)  # a ball by edges of colour
EVERY = 12  # of the cells, one is learnt from: neighbours say the same


def fit_weights(samples: Sequence[tuple[Lattice, np.ndarray]], rounds: int = 3, clicks: int = 5) -> np.ndarray:
    """Fits weights float64 (15,) to lattices and the true masks, bool (H, W), of their images.

    Raises ValueError without samples.
    """
    if not samples:
        raise ValueError("there are no images to learn from")
    weights = np.array(FIRST)
    evidences, lesion = list[np.ndarray](), list[np.ndarray]()
    for _ in range(rounds):
        for number, (grid, truth) in enumerate(samples):
            x0, y0, x1, y1 = grid.box
            crop = truth[y0:y1, x0:x1].astype(np.float32)
            cells = cv2.resize(crop, (grid.w, grid.h), interpolation=cv2.INTER_AREA).ravel() > 0.5

            answer = _Learner(grid, truth, cells, weights, number, evidences, lesion)
            clicked(truth, answer, clicks)
        weights = _regression(np.concatenate(evidences), np.concatenate(lesion))
    return weights


@dataclass
class _Learner:
    """Answers clicks with the weights so far, and keeps what was seen of some cells and whether they are lesion."""

    lattice: Lattice
    truth: np.ndarray
    cells: np.ndarray
    weights: np.ndarray
    start: int
    seen: list[np.ndarray]
    lesion: list[np.ndarray]

    def __call__(self, given: Sequence[Click]) -> np.ndarray:
        thinned = slice(self.start % EVERY, None, EVERY)
        self.seen.append(evidence(self.lattice, given)[thinned])
        self.lesion.append(self.cells[thinned])
        return region(self.lattice, given, self.truth.shape, self.weights)


def _regression(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Weights of a logistic regression; the last column of x is 1."""
    scale = x.std(0) + 1e-6
    scale[-1] = 1.0
    middle = x.mean(0)
    middle[-1] = 0.0
    model = LogisticRegression(C=1.0, max_iter=300, fit_intercept=False).fit((x - middle) / scale, y)
    weights = model.coef_[0] / scale
    weights[-1] -= float(weights[:-1] @ middle[:-1])
    return weights


# Clicks as a reader would place them, where the true mask is known: for measurements and tests.


def next_click(truth: np.ndarray, marked: np.ndarray) -> Click | None:
    """Finds the most interior point of the largest part where `marked` differs from `truth`, both bool (H, W).

    None where they are equal. Positive where the lesion was missed. With nothing found yet: the most interior point of
    the lesion.
    """
    best, area, positive = None, 0, True
    for missed, wrong in ((True, truth & ~marked), (False, marked & ~truth)):
        count, parts, stats, _ = cv2.connectedComponentsWithStats(wrong.astype(np.uint8), connectivity=8)
        if count > 1:
            at = 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
            if stats[at, cv2.CC_STAT_AREA] > area:
                best, area, positive = parts == at, int(stats[at, cv2.CC_STAT_AREA]), missed
    return None if best is None else innermost(best)._replace(positive=positive)


def dice(a: np.ndarray, b: np.ndarray) -> float:
    """Computes the Dice coefficient 2 |a and b| / (|a| + |b|) of two masks; 1 where both are empty."""
    whole = int(a.sum()) + int(b.sum())
    return 2 * int((a & b).sum()) / whole if whole else 1.0


def clicked(truth: np.ndarray, answer: Callable[[Sequence[Click]], np.ndarray], most: int) -> list[float]:
    """Computes Dice after 1, 2, ... `most` clicks, each placed where the answer to those before it was most wrong."""
    clicks: list[Click] = []
    mask, out = np.zeros_like(truth), list[float]()
    for _ in range(most):
        click = next_click(truth, mask)
        if click is not None:
            clicks.append(click)
            mask = answer(clicks)
        out.append(dice(mask, truth))
    return out

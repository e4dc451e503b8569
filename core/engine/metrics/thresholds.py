"""Where the line between normal and abnormal is drawn before an evaluation, and from which images.

`held-out`: from held-out normals alone; no test image has a part in it. `paper` (Sec. evaluation measures): from 50
normal and 50 abnormal images drawn from the test set, which stay in it, as the paper's text has it: optimistic.
For pixels, where the paper names no rule: `held-out` as above, or `best-dice` of the abnormal images of such a draw.
"""

from __future__ import annotations

import numpy as np

PROTOCOLS = ("held-out", "paper")
PIXEL_RULES = ("held-out", "best-dice")
DRAWN = 50


def validation_draw(labels: np.ndarray, seed: int, eligible: np.ndarray | None = None) -> np.ndarray:
    """labels (N,) 0/1 -> indices of 50 normal and 50 abnormal images, or as many as there are, ascending.

    eligible bool (N,): only these can be drawn.
    """
    rng = np.random.default_rng([seed, DRAWN])
    eligible = np.ones(len(labels), bool) if eligible is None else eligible
    drawn = []
    for kind in (0, 1):
        members = np.flatnonzero((labels == kind) & eligible)
        drawn.append(rng.permutation(members)[:DRAWN])
    return np.sort(np.concatenate(drawn))


def most_accurate(scores: np.ndarray, labels: np.ndarray) -> float:
    """The threshold (flag what scores above it) with the highest mean of sensitivity and specificity.

    Half-way between two scores; of several equally good, the middle one. With as many normal as abnormal images it
    is the most accurate one.
    """
    values = np.unique(np.asarray(scores, dtype=np.float64))
    if labels.all() or not labels.any():
        raise ValueError("the paper's threshold takes normal and abnormal test images; use the held-out protocol")
    cuts = np.concatenate([[values[0] - 1], (values[1:] + values[:-1]) / 2, [values[-1] + 1]])
    normal, abnormal = np.sort(scores[labels == 0]), np.sort(scores[labels == 1])
    specificity = np.searchsorted(normal, cuts, side="right") / len(normal)
    sensitivity = 1 - np.searchsorted(abnormal, cuts, side="right") / len(abnormal)
    both = specificity + sensitivity
    best = np.flatnonzero(both >= both.max() - 1e-12)
    return float(cuts[best[len(best) // 2]])

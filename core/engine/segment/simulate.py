"""Clicks as a reader would place them, where the true mask is known: for measurements and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cv2
import numpy as np

from core.engine.segment.region import Click


def next_click(truth: np.ndarray, found: np.ndarray) -> Click | None:
    """The most interior point of the largest part where `found` differs from `truth`, both bool (H, W); None where none

    does. Positive where the lesion was missed. With nothing found yet: the most interior point of the lesion.
    """
    best, area, positive = None, 0, True
    for missed, wrong in ((True, truth & ~found), (False, found & ~truth)):
        count, parts, about, _ = cv2.connectedComponentsWithStats(wrong.astype(np.uint8), connectivity=8)
        if count > 1:
            at = 1 + int(np.argmax(about[1:, cv2.CC_STAT_AREA]))
            if about[at, cv2.CC_STAT_AREA] > area:
                best, area, positive = parts == at, int(about[at, cv2.CC_STAT_AREA]), missed
    if best is None:
        return None
    depth = cv2.distanceTransform(np.pad(best.astype(np.uint8), 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
    y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    return Click(float(x), float(y), positive)


def dice(a: np.ndarray, b: np.ndarray) -> float:
    """2 |a and b| / (|a| + |b|) of two masks; 1 where both are empty."""
    whole = int(a.sum()) + int(b.sum())
    return 2 * int((a & b).sum()) / whole if whole else 1.0


def clicked(truth: np.ndarray, answer: Callable[[Sequence[Click]], np.ndarray], most: int) -> list[float]:
    """Dice after 1, 2, ... `most` clicks, each placed where the answer to those before it was most wrong."""
    clicks: list[Click] = []
    found, out = np.zeros_like(truth), list[float]()
    for _ in range(most):
        click = next_click(truth, found)
        if click is not None:
            clicks.append(click)
            found = answer(clicks)
        out.append(dice(found, truth))
    return out

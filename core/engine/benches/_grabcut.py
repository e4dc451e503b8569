"""OpenCV's GrabCut led by clicks, for comparison."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from core.engine.segment.lattice import Box
from core.engine.segment.region import Click

RADII = (0.1, 0.15, 0.2, 0.3)  # of the disc that may be lesion round a click, in parts of the window's shorter side
RADIUS = 0.1  # the best of these on polyps that nothing is measured on: `bench click --only fit`
SURE = 0.02  # of the disc that is surely lesion, or surely not
ROUNDS = 3
LONGEST = 112  # pixels of the window's longer side, twice the lattice's; at 320 a click takes 2.7 s of a processor


def grabcut(image: np.ndarray, box: Box, clicks: Sequence[Click], radius: float | None = None) -> np.ndarray:
    """bool (H, W): GrabCut in a window of an image uint8 (H, W, 3), the parts that hold a positive click.

    The window is made smaller to at most LONGEST pixels a side.
    Probably lesion: discs of `radius` round the positive clicks; probably not: all else. Surely: small discs.
    """
    x0, y0, x1, y1 = box
    zoom = min(1.0, LONGEST / max(x1 - x0, y1 - y0))
    w, h = round((x1 - x0) * zoom), round((y1 - y0) * zoom)
    part = cv2.resize(np.ascontiguousarray(image[y0:y1, x0:x1, ::-1]), (w, h), interpolation=cv2.INTER_AREA)
    side = min(h, w)
    mask = np.full((h, w), cv2.GC_PR_BGD, np.uint8)
    spots = [(min(int((c.x - x0) * zoom), w - 1), min(int((c.y - y0) * zoom), h - 1), c.positive) for c in clicks]
    wide, sure = round((radius or RADIUS) * side), max(1, round(SURE * side))
    for x, y, positive in spots:
        if positive:
            cv2.circle(mask, (x, y), wide, cv2.GC_PR_FGD, -1)
    for x, y, positive in spots:
        cv2.circle(mask, (x, y), sure, cv2.GC_FGD if positive else cv2.GC_BGD, -1)
    models = np.zeros((1, 65)), np.zeros((1, 65))
    cv2.setRNGSeed(0)
    cv2.grabCut(part, mask, (0, 0, 0, 0), *models, ROUNDS, cv2.GC_INIT_WITH_MASK)
    lesion = np.isin(mask, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8)
    _, parts = cv2.connectedComponents(lesion)
    held = {int(parts[y, x]) for x, y, positive in spots if positive} - {0}
    lesion = np.isin(parts, list(held)).astype(np.float32)
    found = np.zeros(image.shape[:2], bool)
    found[y0:y1, x0:x1] = cv2.resize(lesion, (x1 - x0, y1 - y0), interpolation=cv2.INTER_LINEAR) > 0.5
    return found

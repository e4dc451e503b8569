"""Boxes round the part of a heat map that a reader points at, for a model that answers boxes.

A map's outline is often wider or narrower than the lesion, and does not hold every place that a reader points at. So
boxes are taken at several levels below the value under the pointer as well, and the model says which of its answers it
expects to fit best.
"""

from __future__ import annotations

import cv2
import numpy as np
from torch import Tensor

from core.engine.segment.lite_medsam import BoxModel, Corners

USUAL = 0.7  # of the way from a usual normal map up to the value under the pointer: best of 0.3 to 0.95 on two sets
OTHERS = (0.5, 0.8, 0.9)
LARGE = 0.5  # of the image: a box that holds more says nothing


def boxes(heat: np.ndarray, usual: float, level: float, spot: tuple[float, float]) -> list[Corners]:
    """Proposes boxes x0, y0, x1, y1 round the parts of a map float (H, W) that hold `spot` (x, y), in its pixels.

    heat: -inf marks places that do not count; usual: the median of normal maps; level: of the map's outline. The first
    box is the usual one; others, and the outline's own, follow where the spot lies within the outline. Raises
    ValueError where the map shows nothing.
    """
    height, width = heat.shape
    x, y = (min(max(int(v), 0), n - 1) for v, n in zip(spot, (width, height), strict=True))
    value = float(heat[y, x])
    if not np.isfinite(value) or value <= usual:
        raise ValueError("The heat map shows nothing there. Point at what is red, or drag a box round the lesion.")
    shares = (USUAL, *OTHERS) if value >= level else (USUAL,)
    levels = [usual + share * (value - usual) for share in shares] + ([level] if value >= level else [])
    corners = list[Corners]()
    for at in levels:
        _, parts = cv2.connectedComponents((heat >= at).astype(np.uint8), connectivity=8)
        left, top, wide, high = cv2.boundingRect((parts == parts[y, x]).astype(np.uint8))
        box = (float(left), float(top), float(left + wide), float(top + high))
        large = wide * high > LARGE * heat.size
        if not corners or not (large or box in corners):
            corners.append(box)
    return corners


def chosen(model: BoxModel, embedding: Tensor, candidates: list[Corners], shape: tuple[int, int]) -> Corners:
    """Chooses the box whose mask the model expects to fit best; the usual one is left out where it is too large."""
    fair = [box for box in candidates if (box[2] - box[0]) * (box[3] - box[1]) <= LARGE * shape[0] * shape[1]]
    if len(fair) < 2:
        return (fair or candidates)[0]
    _, expected = model.logits(embedding, fair, shape)
    return fair[int(expected.argmax())]

"""Bounding boxes around the region of a heat map that a reader points at, as prompts for a segmentation model.

A map's outline is often larger or smaller than the lesion, and does not contain every point of interest. Boxes are
therefore also proposed at several levels below the value at the pointer; the model's own estimate of the fit decides.
"""

from __future__ import annotations

import cv2
import numpy as np
from torch import Tensor

from core.engine.segment.lite_medsam import BoxModel, Corners

USUAL = 0.7  # level between a typical normal map and the value at the pointer; best of 0.3 to 0.95 on two sets
OTHERS = (0.5, 0.8, 0.9)
LARGE = 0.5  # share of the image above which a box is useless


def boxes(heat: np.ndarray, usual: float, level: float, spot: tuple[float, float]) -> list[Corners]:
    """Proposes boxes (x0, y0, x1, y1) around the regions of a map that contain a point.

    The first box is the default; if the point is inside the outline, further ones and that of the outline follow.

    Args:
        heat: float (H, W), -inf where it does not count.
        usual: The median of normal maps.
        level: The level of the map's outline.
        spot: The point (x, y) in pixels of the map.

    Raises:
        ValueError: If the map is not above `usual` there.
    """
    height, width = heat.shape
    x, y = (min(max(int(v), 0), n - 1) for v, n in zip(spot, (width, height), strict=True))
    value = float(heat[y, x])
    if not np.isfinite(value) or value <= usual:
        raise ValueError("The heat map shows nothing there. Point at a red region, or drag a box around the lesion.")
    shares = (USUAL, *OTHERS) if value >= level else (USUAL,)
    levels = [usual + share * (value - usual) for share in shares] + ([level] if value >= level else [])
    corners = list[Corners]()
    for at in levels:
        _, labels = cv2.connectedComponents((heat >= at).astype(np.uint8), connectivity=8)
        left, top, wide, high = cv2.boundingRect((labels == labels[y, x]).astype(np.uint8))
        box = (float(left), float(top), float(left + wide), float(top + high))
        large = wide * high > LARGE * heat.size
        if not corners or not (large or box in corners):
            corners.append(box)
    return corners


def chosen(model: BoxModel, embedding: Tensor, candidates: list[Corners], shape: tuple[int, int]) -> Corners:
    """Returns the box whose mask the model expects to fit best, unless it is too large."""
    fair = [box for box in candidates if (box[2] - box[0]) * (box[3] - box[1]) <= LARGE * shape[0] * shape[1]]
    if len(fair) < 2:
        return (fair or candidates)[0]
    _, expected = model.logits(embedding, fair, shape)
    return fair[int(expected.argmax())]

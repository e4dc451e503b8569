"""A region from clicks: a logistic regression of each cell on its similarity to the clicks.

Six measures of similarity (`MEASURES`) are computed for the positive clicks and, if there are any, for the negative
ones. The weights of the regression are WEIGHTS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from scipy.sparse import csgraph

from core.engine.segment.lattice import STRIDES, Lattice

MEASURES = ("edges of colour", "edges of features", "distance", "fine features", "coarse features", "colour")
REACH = 1.5  # range of a corrective click, relative to its distance from the border; best of 1.5, 2 and 3 on two sets
NEAR = 0.03  # added to distances before their logarithm is taken, relative to the window's side


class Click(NamedTuple):
    """A point in pixels of the image; positive if it is inside the lesion."""

    x: float
    y: float
    positive: bool


def measures(lattice: Lattice, cells: np.ndarray) -> np.ndarray:
    """Computes MEASURES of each cell and the nearest or most similar of `cells`: float32 (cells, 6).

    These are the logarithms of three distances (cheapest path by colour and by features, straight line), the largest
    cosine similarity of the features at both strides, and the smallest difference of colour.
    """
    paths = [np.log(csgraph.dijkstra(steps, indices=cells, min_only=True) + NEAR) for steps in lattice.steps]
    straight = np.sqrt(((lattice.places[:, None] - lattice.places[cells]) ** 2).sum(2)).min(1)
    similarity = [(lattice.features[s] @ lattice.features[s][cells].T).max(1) for s in STRIDES]
    colour = np.sqrt(((lattice.colours[:, None] - lattice.colours[cells]) ** 2).sum(2)).min(1)
    return np.stack([*paths, np.log(straight + NEAR), *similarity, colour], 1).astype(np.float32)


def evidence(lattice: Lattice, clicks: Sequence[Click]) -> np.ndarray:
    """Computes the inputs of the regression: float32 (cells, 15).

    These are the measures for the positive clicks, those for the negative ones (0 without any), whether there are
    negative ones, the logarithm of the number of positive ones, and 1.

    Raises ValueError without a positive click.
    """
    spots = np.array([[c.x, c.y] for c in clicks], np.float64).reshape(-1, 2)
    positive = np.array([c.positive for c in clicks], bool)
    if not positive.any():
        raise ValueError("The first click must be inside the lesion; clicks outside it then correct the region.")
    inside, outside = lattice.cells(spots[positive]), lattice.cells(spots[~positive])
    near = measures(lattice, inside)
    outside_measures = measures(lattice, outside) if len(outside) else np.zeros_like(near)
    ones = np.ones(len(near))
    constants = [ones * bool(len(outside)), ones * np.log(len(inside)), ones]
    return np.concatenate([near, outside_measures, np.stack(constants, 1)], 1).astype(np.float32)


def region(
    lattice: Lattice, clicks: Sequence[Click], shape: tuple[int, int], weights: np.ndarray | None = None
) -> np.ndarray:
    """Segments the region of the clicks, inside the lattice's window: bool (H, W), the image's `shape`.

    All positive clicks are inside and all negative ones outside. Components without a positive click are removed, holes
    without a negative click filled.

    Raises ValueError without a positive click.
    """
    coefficients = np.asarray(WEIGHTS if weights is None else weights, np.float32)
    score = (evidence(lattice, clicks) @ coefficients).reshape(lattice.h, lattice.w)
    x0, y0, x1, y1 = lattice.box
    crop = (cv2.resize(score, (x1 - x0, y1 - y0), interpolation=cv2.INTER_CUBIC) > 0).astype(np.uint8)
    mask = np.zeros(shape, np.uint8)
    mask[y0:y1, x0:x1] = crop
    radius = max(1, round(min(x1 - x0, y1 - y0) / 150))
    spots = [(min(max(int(c.x), 0), shape[1] - 1), min(max(int(c.y), 0), shape[0] - 1), c.positive) for c in clicks]
    for x, y, positive in spots:
        cv2.circle(mask, (x, y), radius, int(positive), -1)
    inside = [(x, y) for x, y, positive in spots if positive]
    outside = [(x, y) for x, y, positive in spots if not positive]
    mask = _holding(mask, inside)
    open_ = np.pad(1 - mask, 1, constant_values=1)  # the surroundings of the image are connected with its border
    return _holding(open_, [(-1, -1), *outside], 1)[1:-1, 1:-1] == 0


def refined(
    lattice: Lattice, start: np.ndarray, clicks: Sequence[Click], weights: np.ndarray | None = None
) -> np.ndarray:
    """Corrects a mask `start`, bool (H, W), by the clicks in their order.

    A positive click adds the connected region around it that is similar to it and to the mask's centre; a negative one
    removes the region around it that is not. Both reach at most REACH times as far as the mask's border. Other pixels
    are not changed. If the mask is empty, the result is that of `region`.
    """
    mask = np.array(start, bool)
    if not mask.any():
        return region(lattice, clicks, mask.shape, weights)
    middle = innermost(mask)
    rows, columns = np.ogrid[: mask.shape[0], : mask.shape[1]]
    for count, click in enumerate(clicks, 1):
        x, y = (min(max(int(v), 0), n - 1) for v, n in zip(click[:2], mask.shape[::-1], strict=True))
        if mask[y, x] == click.positive:
            continue  # it is correct already
        wrong = ~mask if click.positive else mask
        depth = float(cv2.distanceTransform(wrong.astype(np.uint8), cv2.DIST_L2, 5)[y, x])
        similar = region(lattice, [middle, *clicks[:count]], mask.shape, weights)
        wrong_near = (
            wrong & (similar == click.positive) & ((columns - x) ** 2 + (rows - y) ** 2 <= (REACH * depth) ** 2)
        )
        mask ^= _holding(wrong_near.astype(np.uint8), [(x, y)]) > 0
    return mask


def innermost(mask: np.ndarray) -> Click:
    """Returns the innermost point of a non-empty mask bool (H, W), as a positive click."""
    depth = cv2.distanceTransform(np.pad(mask.astype(np.uint8), 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
    y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    return Click(float(x), float(y), True)


def _holding(mask: np.ndarray, spots: Sequence[tuple[int, int]], margin: int = 0) -> np.ndarray:
    """Returns the components of a mask uint8 (H, W) that contain one of the points."""
    _, labels = cv2.connectedComponents(mask, connectivity=4)
    wanted_labels = {int(labels[y + margin, x + margin]) for x, y in spots} - {0}
    return np.isin(labels, list(wanted_labels)).astype(np.uint8)


# Weights of the logistic regression: for positive clicks, for negative clicks, and for the other inputs.
#
# They were fitted to polyps, every fourth of hyperkvasir's 250 images by name, with the features of EfficientNet-lite0
# and ImageNet weights: `python launch.py bench click --only fit` prints them. `bench click` evaluates them on other
# images.


POSITIVE = (-4.631, -3.9541, 4.3451, 0.5913, 2.519, 0.0325)
NEGATIVE = (2.3526, 0.8558, -0.924, -1.7992, 0.1388, -0.368)
REST = (3.2449, -0.8366, -8.5287)
WEIGHTS = (*POSITIVE, *NEGATIVE, *REST)

"""The region that clicks ask for: each cell's probability by logistic regression on how near it is to the clicks.

Similarity has six measures (`MEASURES`), taken to the positive clicks and, where there are any, to the negative ones.
The regression's weights are WEIGHTS; fit.py makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from scipy.sparse import csgraph

from core.engine.segment.lattice import STRIDES, Lattice

MEASURES = ("edges of colour", "edges of features", "distance", "fine features", "coarse features", "colour")
REACH = 1.5  # of a click that corrects a mask; of 1.5, 2 and 3 the best on polyps and on gliomas
NEAR = 0.03  # added to a distance before its logarithm is taken, in parts of the window's side


class Click(NamedTuple):
    """A place in the image's pixels; positive: inside the lesion."""

    x: float
    y: float
    positive: bool


def measures(lattice: Lattice, cells: np.ndarray) -> np.ndarray:
    """Measures how far each cell is from the nearest of some cells, by MEASURES: float32 (cells, 6).

    Distances as logarithms: cheapest way by colour and by features, straight line. Cosine similarity of the features at
    both strides, the largest. Difference of colour, the least.
    """
    ways = [np.log(csgraph.dijkstra(steps, indices=cells, min_only=True) + NEAR) for steps in lattice.steps]
    straight = np.sqrt(((lattice.places[:, None] - lattice.places[cells]) ** 2).sum(2)).min(1)
    alike = [(lattice.features[s] @ lattice.features[s][cells].T).max(1) for s in STRIDES]
    colour = np.sqrt(((lattice.colours[:, None] - lattice.colours[cells]) ** 2).sum(2)).min(1)
    return np.stack([*ways, np.log(straight + NEAR), *alike, colour], 1).astype(np.float32)


def evidence(lattice: Lattice, clicks: Sequence[Click]) -> np.ndarray:
    """Computes what the regression sees of each cell: float32 (cells, 15).

    The measures to the positive clicks; those to the negative ones (0 without any); whether there are negative ones;
    logarithm of the number of positive ones; 1.
    Raises ValueError without a positive click.
    """
    spots = np.array([[c.x, c.y] for c in clicks], np.float64).reshape(-1, 2)
    positive = np.array([c.positive for c in clicks], bool)
    if not positive.any():
        raise ValueError("The first click is inside the lesion; clicks outside take from what it found.")
    inside, outside = lattice.cells(spots[positive]), lattice.cells(spots[~positive])
    near = measures(lattice, inside)
    far = measures(lattice, outside) if len(outside) else np.zeros_like(near)
    ones = np.ones(len(near))
    rest = [ones * bool(len(outside)), ones * np.log(len(inside)), ones]
    return np.concatenate([near, far, np.stack(rest, 1)], 1).astype(np.float32)


def region(
    lattice: Lattice, clicks: Sequence[Click], shape: tuple[int, int], weights: np.ndarray | None = None
) -> np.ndarray:
    """Segments what the clicks ask for, nothing outside the lattice's window: bool (H, W) of the image's `shape`.

    Every positive click lies in the region and no negative one does. Parts that hold no positive click are left out;
    holes without a negative click are filled. Raises ValueError without a positive click.
    """
    given = np.asarray(WEIGHTS if weights is None else weights, np.float32)
    score = (evidence(lattice, clicks) @ given).reshape(lattice.h, lattice.w)
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
    open_ = np.pad(1 - mask, 1, constant_values=1)  # what lies round the image is one part with its border
    return _holding(open_, [(-1, -1), *outside], 1)[1:-1, 1:-1] == 0


def refined(
    lattice: Lattice, start: np.ndarray, clicks: Sequence[Click], weights: np.ndarray | None = None
) -> np.ndarray:
    """Corrects a mask `start` bool (H, W), wherever it came from, by the clicks in their order -> bool (H, W).

    A positive click adds the part that it lies in of what is like it and the mask's middle, a negative one takes away
    the part that it lies in of what is not: both no farther than REACH times as far as the mask's border is. All else
    stays as it was. An empty mask grows as in `region`.
    """
    mask = np.array(start, bool)
    if not mask.any():
        return region(lattice, clicks, mask.shape, weights)
    middle = innermost(mask)
    rows, columns = np.ogrid[: mask.shape[0], : mask.shape[1]]
    for count, click in enumerate(clicks, 1):
        x, y = (min(max(int(v), 0), n - 1) for v, n in zip(click[:2], mask.shape[::-1], strict=True))
        if mask[y, x] == click.positive:
            continue  # it is as the click wants it already
        wrong = ~mask if click.positive else mask
        depth = float(cv2.distanceTransform(wrong.astype(np.uint8), cv2.DIST_L2, 5)[y, x])
        like = region(lattice, [middle, *clicks[:count]], mask.shape, weights)
        wrong_near = wrong & (like == click.positive) & ((columns - x) ** 2 + (rows - y) ** 2 <= (REACH * depth) ** 2)
        mask ^= _holding(wrong_near.astype(np.uint8), [(x, y)]) > 0
    return mask


def innermost(mask: np.ndarray) -> Click:
    """Finds the most interior place of a mask bool (H, W) that is not empty, as a positive click."""
    depth = cv2.distanceTransform(np.pad(mask.astype(np.uint8), 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
    y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    return Click(float(x), float(y), True)


def _holding(mask: np.ndarray, spots: Sequence[tuple[int, int]], margin: int = 0) -> np.ndarray:
    """The parts of a mask uint8 (H, W) that hold one of the spots."""
    _, parts = cv2.connectedComponents(mask, connectivity=4)
    held = {int(parts[y + margin, x + margin]) for x, y in spots} - {0}
    return np.isin(parts, list(held)).astype(np.uint8)


# Weights of region.py's logistic regression: of the measures to positive clicks, to negative ones, and of the rest.
#
# Learnt from polyps alone, every fourth of hyperkvasir's 250 by name, from the first, with the features of
# EfficientNet-lite0 on ImageNet weights: `python launch.py bench click --only fit` prints them.
# `bench click` measures them on other images.


POSITIVE = (-4.631, -3.9541, 4.3451, 0.5913, 2.519, 0.0325)
NEGATIVE = (2.3526, 0.8558, -0.924, -1.7992, 0.1388, -0.368)
REST = (3.2449, -0.8366, -8.5287)
WEIGHTS = (*POSITIVE, *NEGATIVE, *REST)

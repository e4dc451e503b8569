"""The region that clicks ask for: each cell's chance by logistic regression on how near it is to the clicks.

Similarity has six measures (`MEASURES`), taken to the positive clicks and, where there are any, to the negative ones.
The regression's weights are in weights.py; fit.py makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from scipy.sparse import csgraph

from core.engine.segment.lattice import STRIDES, Lattice
from core.engine.segment.weights import WEIGHTS

MEASURES = ("edges of colour", "edges of features", "distance", "fine features", "coarse features", "colour")
NEAR = 0.03  # added to a distance before its logarithm is taken, in parts of the window's side


class Click(NamedTuple):
    """A place in the image's pixels; positive: inside the lesion."""

    x: float
    y: float
    positive: bool


def measures(lattice: Lattice, cells: np.ndarray) -> np.ndarray:
    """float32 (cells, 6): how far each cell is from the nearest of some cells, by MEASURES.

    Distances as logarithms: cheapest way by colour and by features, straight line. Cosine similarity of the features at
    both strides, the largest. Difference of colour, the least.
    """
    ways = [np.log(csgraph.dijkstra(steps, indices=cells, min_only=True) + NEAR) for steps in lattice.steps]
    straight = np.sqrt(((lattice.places[:, None] - lattice.places[cells]) ** 2).sum(2)).min(1)
    alike = [(lattice.features[s] @ lattice.features[s][cells].T).max(1) for s in STRIDES]
    colour = np.sqrt(((lattice.colours[:, None] - lattice.colours[cells]) ** 2).sum(2)).min(1)
    return np.stack([*ways, np.log(straight + NEAR), *alike, colour], 1).astype(np.float32)


def evidence(lattice: Lattice, clicks: Sequence[Click]) -> np.ndarray:
    """float32 (cells, 15), what the regression sees of each cell.

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
    one = np.ones(len(near))
    rest = [one * bool(len(outside)), one * np.log(len(inside)), one]
    return np.concatenate([near, far, np.stack(rest, 1)], 1).astype(np.float32)


def region(
    lattice: Lattice, clicks: Sequence[Click], shape: tuple[int, int], weights: np.ndarray | None = None
) -> np.ndarray:
    """bool (H, W) of the image's `shape`: what the clicks ask for, nothing outside the lattice's window.

    Every positive click lies in the region and no negative one does. Parts that hold no positive click are left out;
    holes without a negative click are filled. Raises ValueError without a positive click.
    """
    given = np.asarray(WEIGHTS if weights is None else weights, np.float32)
    score = (evidence(lattice, clicks) @ given).reshape(lattice.h, lattice.w)
    x0, y0, x1, y1 = lattice.box
    part = (cv2.resize(score, (x1 - x0, y1 - y0), interpolation=cv2.INTER_CUBIC) > 0).astype(np.uint8)
    found = np.zeros(shape, np.uint8)
    found[y0:y1, x0:x1] = part
    radius = max(1, round(min(x1 - x0, y1 - y0) / 150))
    spots = [(min(max(int(c.x), 0), shape[1] - 1), min(max(int(c.y), 0), shape[0] - 1), c.positive) for c in clicks]
    for x, y, positive in spots:
        cv2.circle(found, (x, y), radius, int(positive), -1)
    inside = [(x, y) for x, y, positive in spots if positive]
    outside = [(x, y) for x, y, positive in spots if not positive]
    found = _holding(found, inside)
    open_ = np.pad(1 - found, 1, constant_values=1)  # what lies round the image is one part with its border
    return _holding(open_, [(-1, -1), *outside], 1)[1:-1, 1:-1] == 0


def _holding(mask: np.ndarray, spots: Sequence[tuple[int, int]], margin: int = 0) -> np.ndarray:
    """The parts of a mask uint8 (H, W) that hold one of the spots."""
    _, parts = cv2.connectedComponents(mask, connectivity=4)
    held = {int(parts[y + margin, x + margin]) for x, y in spots} - {0}
    return np.isin(parts, list(held)).astype(np.uint8)

"""Segments a region from clicks, and proposes bounding boxes around the part of a heat map at the pointer.

Clicks: a logistic regression with the coefficients WEIGHTS classifies each cell of a lattice by its similarity to the
clicks. Features, colours and edges of the lattice are computed once per window. Steps between neighbouring cells cost
more at edges, so that the cheapest path between two cells is short inside a region and long across its border (geodesic
distance: Bai and Sapiro, ICCV 2007). Six measures of similarity (`MEASURES`) are computed for the positive and, if any,
six for the negative clicks.

Boxes are prompts for a segmentation model. The outline on a heat map is often larger or smaller than the lesion, and
not every point is inside an outline. Boxes are therefore proposed at several levels below the value at the pointer, and
the one with the highest expected IoU is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor
from torch.nn import functional as F

from core.engine.backbones.encoder import Encoder
from core.engine.segment.lite_medsam import BoxModel, Corners
from core.engine.tensors import to_batch

MEASURES = ("edges of colour", "edges of features", "distance", "fine features", "coarse features", "colour")
REACH = 1.5  # range of a corrective click relative to its distance from the border; best of 1.5, 2, 3 on two data sets
NEAR = 0.03  # offset added to distances before taking logarithms, relative to the window's side length


class Click(NamedTuple):
    """Point in pixels of the image, positive if it is inside the lesion and negative if it is outside."""

    x: float
    y: float
    positive: bool


def measures(lattice: Lattice, cells: np.ndarray) -> np.ndarray:
    """Computes MEASURES between each lattice cell and the closest or most similar of `cells`: float32 `(N, 6)`.

    The measures are the logarithms of three distances (cheapest path by colour, cheapest path by features, straight
    line), the cosine similarity of the features at each of two strides, and the difference in colour.
    """
    paths = [np.log(csgraph.dijkstra(steps, indices=cells, min_only=True) + NEAR) for steps in lattice.steps]
    straight = np.sqrt(((lattice.places[:, None] - lattice.places[cells]) ** 2).sum(2)).min(1)
    similarity = [(lattice.features[s] @ lattice.features[s][cells].T).max(1) for s in STRIDES]
    colour = np.sqrt(((lattice.colours[:, None] - lattice.colours[cells]) ** 2).sum(2)).min(1)
    return np.stack([*paths, np.log(straight + NEAR), *similarity, colour], 1).astype(np.float32)


def evidence(lattice: Lattice, clicks: Sequence[Click]) -> np.ndarray:
    """Computes the inputs of the logistic regression: float32 `(cells, 15)`.

    In order: six measures for the positive clicks, six for the negative clicks (0 if there are none), whether there are
    negative clicks, the logarithm of the number of positive clicks, and the constant 1.

    Raises ValueError if there is no positive click.
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
    """Segments the region selected by clicks within the lattice's window: bool `(H, W)`, the image's `shape`.

    The region contains all positive and no negative clicks. Components without a positive click are removed, and holes
    without a negative click are filled. `weights` `(15,)` replaces WEIGHTS.

    Raises ValueError if there is no positive click.
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
    open_ = np.pad(1 - mask, 1, constant_values=1)  # the area around the image is connected to the image border
    return _holding(open_, [(-1, -1), *outside], 1)[1:-1, 1:-1] == 0


def refined(
    lattice: Lattice, start: np.ndarray, clicks: Sequence[Click], weights: np.ndarray | None = None
) -> np.ndarray:
    """Corrects the mask `start`, bool `(H, W)`, at one click after another; returns the corrected mask.

    A positive click outside the mask adds the area around it that resembles the click and the mask's centre. A negative
    click inside the mask removes the area around it that does not resemble the centre. Pixels beyond REACH times the
    distance to the mask's border do not change. If `start` is empty, calls `region`.
    """
    mask = np.array(start, bool)
    if not mask.any():
        return region(lattice, clicks, mask.shape, weights)
    middle = innermost(mask)
    rows, columns = np.ogrid[: mask.shape[0], : mask.shape[1]]
    for count, click in enumerate(clicks, 1):
        x, y = (min(max(int(v), 0), n - 1) for v, n in zip(click[:2], mask.shape[::-1], strict=True))
        if mask[y, x] == click.positive:
            continue  # the mask is already correct at the click
        wrong = ~mask if click.positive else mask
        depth = float(cv2.distanceTransform(wrong.astype(np.uint8), cv2.DIST_L2, 5)[y, x])
        similar = region(lattice, [middle, *clicks[:count]], mask.shape, weights)
        wrong_near = (
            wrong & (similar == click.positive) & ((columns - x) ** 2 + (rows - y) ** 2 <= (REACH * depth) ** 2)
        )
        mask ^= _holding(wrong_near.astype(np.uint8), [(x, y)]) > 0
    return mask


def innermost(mask: np.ndarray) -> Click:
    """Returns the point of a non-empty mask, bool `(H, W)`, that is farthest from its border, as a positive click."""
    depth = cv2.distanceTransform(np.pad(mask.astype(np.uint8), 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
    y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    return Click(float(x), float(y), True)


def _holding(mask: np.ndarray, spots: Sequence[tuple[int, int]], margin: int = 0) -> np.ndarray:
    """Returns the connected components of a mask uint8 `(H, W)` that contain at least one of the points."""
    _, labels = cv2.connectedComponents(mask, connectivity=4)
    wanted_labels = {int(labels[y + margin, x + margin]) for x, y in spots} - {0}
    return np.isin(labels, list(wanted_labels)).astype(np.uint8)


# Coefficients of the logistic regression: for positive clicks, for negative clicks, and for the other inputs. They were
# fitted to polyps, every fourth of hyperkvasir's 250 images by name, with features of EfficientNet-lite0 and ImageNet
# weights. `python launch.py bench click --only fit` prints them, `bench click` evaluates them on other images.

POSITIVE = (-4.631, -3.9541, 4.3451, 0.5913, 2.519, 0.0325)
NEGATIVE = (2.3526, 0.8558, -0.924, -1.7992, 0.1388, -0.368)
REST = (3.2449, -0.8366, -8.5287)
WEIGHTS = (*POSITIVE, *NEGATIVE, *REST)

SIDE = 320  # longer side of the window in the encoder's input, a multiple of 32
STRIDES = (16, 32)  # strides of the encoder's feature maps
CELLS = 2600  # approximate number of cells in a lattice
STEP = 0.1  # smallest cost of a step relative to the mean edge, so that regions without edges do not grow indefinitely

Box = tuple[int, int, int, int]  # x0, y0, x1, y1 in pixels of the image, ends excluded


@dataclass(frozen=True)
class Lattice:
    """Lattice of `h` x `w` cells over a window of an image. The arrays contain the cells row by row.

    Attributes:
        box: Window (x0, y0, x1, y1) in pixels of the image.
        features: Features by stride, float32 `(cells, C)`, each row scaled to length 1.
        colours: Lab colours, float32 `(cells, 3)`, standardised over the window.
        places: Positions x and y, float32 `(cells, 2)`, relative to the window's side length.
        steps: Costs of steps between neighbours by colour and by features at stride 16, two sparse `(cells, cells)`.
    """

    h: int
    w: int
    box: Box
    features: dict[int, np.ndarray]
    colours: np.ndarray
    places: np.ndarray
    steps: tuple[sparse.csr_matrix, sparse.csr_matrix]

    def cells(self, spots: np.ndarray) -> np.ndarray:
        """Returns the indices `(N,)` of the cells nearest to the points `(N, 2)`, x and y in pixels."""
        x0, y0, x1, y1 = self.box
        spots = np.asarray(spots, np.float64).reshape(-1, 2)
        across = np.clip((spots[:, 0] - x0) * self.w / (x1 - x0), 0, self.w - 1).astype(int)
        down = np.clip((spots[:, 1] - y0) * self.h / (y1 - y0), 0, self.h - 1).astype(int)
        return down * self.w + across


@torch.inference_mode()
def lattice(encoder: Encoder, image: np.ndarray, box: Box | None = None) -> Lattice:
    """Computes the lattice of an image uint8 `(H, W, 3)`, or of its window `box` (x0, y0, x1, y1).

    Raises ValueError if the window is smaller than 8 x 8 pixels or not inside the image.
    """
    x0, y0, x1, y1 = box = box or (0, 0, image.shape[1], image.shape[0])
    if not (0 <= x0 <= x1 - 8 and 0 <= y0 <= y1 - 8 and x1 <= image.shape[1] and y1 <= image.shape[0]):
        raise ValueError(f"the window {box} must be inside the image and have at least 8 x 8 pixels")
    crop = np.ascontiguousarray(image[y0:y1, x0:x1])
    dense = (CELLS / (crop.shape[0] * crop.shape[1])) ** 0.5
    h, w = (max(4, round(n * dense)) for n in crop.shape[:2])
    colours = _colours(crop, h, w)
    features = _features(encoder, crop, h, w)
    first, second, length = _neighbours(h, w)
    feature_distance = 1 - (features[STRIDES[0]][first] * features[STRIDES[0]][second]).sum(1)
    edges = np.sqrt(((colours[first] - colours[second]) ** 2).sum(1)), feature_distance
    y, x = np.mgrid[:h, :w]
    positions = np.stack([x, y], 2).reshape(-1, 2).astype(np.float32) / np.sqrt(h * w)
    steps = [_costs(first, second, edge, length / np.sqrt(h * w), h * w) for edge in edges]
    return Lattice(h, w, box, features, colours, positions, (steps[0], steps[1]))


def _colours(crop: np.ndarray, h: int, w: int) -> np.ndarray:
    lab = cv2.cvtColor(_resized(crop, h, w), cv2.COLOR_RGB2LAB).astype(np.float32)
    return ((lab - lab.mean((0, 1))) / (lab.std() + 1)).reshape(-1, 3)


def _features(encoder: Encoder, crop: np.ndarray, h: int, w: int) -> dict[int, np.ndarray]:
    zoom = SIDE / max(crop.shape[:2])
    height, width = (max(64, round(n * zoom / 32) * 32) for n in crop.shape[:2])
    batch = to_batch(_resized(crop, height, width)[None], encoder.mean.device)
    features = {}
    for stride, m in encoder.maps(batch, STRIDES).items():
        m = m.float()  # (1, C, height / stride, width / stride)
        m = (m - m.mean((2, 3), keepdim=True)) / (m.std((2, 3), keepdim=True) + 1e-6)
        m = F.normalize(F.interpolate(m, size=(h, w), mode="bilinear"), dim=1)
        features[stride] = m[0].flatten(1).T.contiguous().cpu().numpy()
    return features


def _resized(crop: np.ndarray, h: int, w: int) -> np.ndarray:
    smaller = h * w < crop.shape[0] * crop.shape[1]
    return cv2.resize(crop, (w, h), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)


def _neighbours(h: int, w: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns all pairs of neighbouring cells and the distances between them in cells."""
    at = np.arange(h * w).reshape(h, w)
    straight = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    slanted = [(at[:-1, :-1], at[1:, 1:]), (at[1:, :-1], at[:-1, 1:])]
    pairs = [(a.ravel(), b.ravel(), 1.0) for a, b in straight] + [(a.ravel(), b.ravel(), 2**0.5) for a, b in slanted]
    length = np.concatenate([np.full(len(a), far, np.float32) for a, _, far in pairs])
    return np.concatenate([a for a, _, _ in pairs]), np.concatenate([b for _, b, _ in pairs]), length


def _costs(
    first: np.ndarray, second: np.ndarray, edge: np.ndarray, length: np.ndarray, cells: int
) -> sparse.csr_matrix:
    cost = length * (STEP + edge / max(float(edge.mean()), 1e-6))
    one_way = sparse.coo_matrix((cost, (first, second)), (cells, cells)).tocsr()
    return (one_way + one_way.T).tocsr()


USUAL = 0.7  # level between a typical normal map and the value at the pointer; best of 0.3 to 0.95 on two data sets
OTHERS = (0.5, 0.8, 0.9)  # further levels, used if the pointer is inside the outline
LARGE = 0.5  # fraction of the image above which a box is useless


def boxes(heat: np.ndarray, usual: float, level: float, spot: tuple[float, float]) -> list[Corners]:
    """Proposes boxes (x0, y0, x1, y1) around the connected regions of a heat map that contain a point.

    The first box is the default. If the point is inside an outline, further boxes follow, the outline's box last.

    Args:
        heat: Heat map, float `(H, W)`, with -inf in pixels that are not judged.
        usual: Median value of normal heat maps.
        level: Value at which the heat map is outlined.
        spot: Point (x, y) in pixels of the heat map.

    Raises:
        ValueError: If the heat map is not above `usual` at the point.
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
    """Returns the candidate box with the highest IoU expected by the model.

    Boxes that cover more than a fraction LARGE of the image (`shape`) are ignored, unless all boxes do.
    """
    fair = [box for box in candidates if (box[2] - box[0]) * (box[3] - box[1]) <= LARGE * shape[0] * shape[1]]
    if len(fair) < 2:
        return (fair or candidates)[0]
    _, expected = model.logits(embedding, fair, shape)
    return fair[int(expected.argmax())]

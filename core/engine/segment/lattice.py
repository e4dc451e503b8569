"""The features, colours and edges of an image on a lattice of cells, computed once per window for all clicks.

Edges are the costs of steps between neighbouring cells, so that the cheapest path between two cells is short inside a
region and long across its border (geodesic distance: Bai and Sapiro, ICCV 2007).
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import torch
from scipy import sparse
from torch.nn import functional as F

from core.engine.backbones.encoder import Encoder
from core.engine.tensors import to_batch

SIDE = 320  # longer side of the window for the encoder, a multiple of 32
STRIDES = (16, 32)  # of the feature maps
CELLS = 2600  # approximate number of cells
STEP = 0.1  # least cost of a step relative to the mean edge, so that regions without edges do not grow indefinitely

Box = tuple[int, int, int, int]  # x0, y0, x1, y1 in pixels of the image, ends excluded


@dataclass(frozen=True)
class Lattice:
    """h x w cells over a window of an image, row by row.

    box: the window. features: {stride: float32 (cells, C)}, each row of length 1. colours: float32 (cells, 3), Lab in
    standard deviations of the window. places: float32 (cells, 2), x and y in units of the window's side. steps: cost
    of a step between neighbours, sparse (cells, cells), one by colour and one by features of the finer stride.
    """

    h: int
    w: int
    box: Box
    features: dict[int, np.ndarray]
    colours: np.ndarray
    places: np.ndarray
    steps: tuple[sparse.csr_matrix, sparse.csr_matrix]

    def cells(self, spots: np.ndarray) -> np.ndarray:
        """Returns the cell of each point (N, 2), x and y in pixels of the image, or the nearest one at the border."""
        x0, y0, x1, y1 = self.box
        spots = np.asarray(spots, np.float64).reshape(-1, 2)
        across = np.clip((spots[:, 0] - x0) * self.w / (x1 - x0), 0, self.w - 1).astype(int)
        down = np.clip((spots[:, 1] - y0) * self.h / (y1 - y0), 0, self.h - 1).astype(int)
        return down * self.w + across


@torch.inference_mode()
def lattice(encoder: Encoder, image: np.ndarray, box: Box | None = None) -> Lattice:
    """Computes the lattice of an image uint8 (H, W, 3), or of the window `box` in it.

    Raises ValueError if the window is smaller than 8 x 8 pixels or not inside the image.
    """
    x0, y0, x1, y1 = box = box or (0, 0, image.shape[1], image.shape[0])
    if not (0 <= x0 <= x1 - 8 and 0 <= y0 <= y1 - 8 and x1 <= image.shape[1] and y1 <= image.shape[0]):
        raise ValueError(f"the window {box} holds less than 8 x 8 pixels of the image")
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
    """Returns all pairs of neighbouring cells and their distances in cells."""
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

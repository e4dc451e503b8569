"""Points that are places in images: what PaDiM sees, some cells of a lattice over each image of a point set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np

from core.studio.clusters.config import MapConfig
from core.studio.clusters.points import PointSet

NAMES = ("no lesion", "lesion", "\u2013")


@dataclass
class Patches:
    """P places of each of N images. place int64 (N, P): flat cells of a grid x grid lattice.

    lesion int64 (N, P): 1 in a lesion, 0 outside, -1 where nobody knows (an abnormal image without a mask).
    """

    grid: int
    place: np.ndarray
    lesion: np.ndarray

    def box(self, cell: int) -> list[float]:
        """x0, y0, x1, y1 of a cell, in 0 .. 1 of the image."""
        row, col = divmod(int(cell), self.grid)
        return [col / self.grid, row / self.grid, (col + 1) / self.grid, (row + 1) / self.grid]


def covered(mask: np.ndarray, grid: int) -> np.ndarray:
    """(S, S) of 0 and 1 -> float32 (grid * grid,): how much of each cell is covered."""
    return cv2.resize(mask.astype(np.float32), (grid, grid), interpolation=cv2.INTER_AREA).ravel()


def choose(points: PointSet, arrays, config: MapConfig) -> Patches:
    """Places drawn from the map's seed, inside the region of interest; in an image with a lesion, half of them in it.

    A cell is in a lesion if half of it is; a lesion smaller than that owns its best cell.
    """
    rng = np.random.default_rng(config.seed)
    place = np.zeros((len(points), config.patches), np.int64)
    lesion = np.zeros_like(place)
    unlabelled = np.array([g.startswith(("Abnormal", "Unlabelled")) for g in points.groups])[points.group]
    for i in range(len(points)):
        row, mixed = int(points.row[i]), int(points.mixed[i])
        mask = points.mixed_mask(mixed) if mixed >= 0 else arrays.masks[row] if arrays.has_mask[row] else None
        share = covered(np.asarray(mask), config.grid) if mask is not None else np.zeros(config.grid**2)
        inside = share >= min(0.5, share.max()) if share.max() > 0 else np.zeros(len(share), bool)
        seen = covered(np.asarray(arrays.roi[row]), config.grid) >= 0.5
        seen |= inside
        if not seen.any():
            seen[:] = True
        within, without = rng.permutation(np.flatnonzero(inside)), rng.permutation(np.flatnonzero(seen & ~inside))
        half = within[: max(config.patches // 2, config.patches - len(without))]
        picked = np.concatenate([half, without])[: config.patches]
        picked = np.resize(picked, config.patches)  # a tiny region of interest gives some cell twice
        place[i], lesion[i] = picked, inside[picked]
        if mask is None and unlabelled[i]:
            lesion[i] = -1
    return Patches(config.grid, place, lesion)


def spread(points: PointSet, patches: Patches) -> PointSet:
    """The point set with one point per place: N images become N x P points, image by image."""
    times = patches.place.shape[1]
    columns: dict[str, Any] = {c: np.repeat(getattr(points, c), times) for c in PointSet.COLUMNS}
    return replace(points, **columns, patches=patches, place=patches.place.ravel(), in_lesion=patches.lesion.ravel())

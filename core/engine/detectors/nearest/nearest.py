"""Nearest patches: the distance of each patch of an image from the most similar patch of normal images.

As in PatchCore (Roth et al. 2022), maps of two middle strides are averaged over 3 x 3 cells and concatenated on the
finer grid. The memory is a coreset of the normal images' patches. The score of an image is its largest distance,
re-weighted. Options limit the number of patches, select patches at random, or add the position to the features. Nothing
is trained, and every result can be traced: `explain` returns the image and position with which a patch was compared.
For a vision transformer, the maps are its patch tokens at half and at three quarters of its depth.

With the option `whitened`, this is MH-PatchCore (Ferrari et al. 2026, "Mahalanobis PatchCore: Covariance-Aware and
Streaming-Compatible Industrial Anomaly Detection"): squared distances in a space in which normal patches vary equally
in all directions. There are three differences from that paper. Mean and covariance are computed in one pass instead of
three, with the same whitening. The memory is a coreset of a pool sampled evenly from all images, whereas the paper
merges and reduces blocks of 256. Patches are not first reduced to 1,024 values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from core.engine.backbones.base import in_order
from core.engine.backbones.config import STRIDES
from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import blur, counting
from core.engine.config import BadConfig, Config, option
from core.engine.detectors.base import FitContext
from core.engine.detectors.map_detector import MapDetector
from core.engine.detectors.nearest.memory import Memory, NearestFitting, patches_of, scaled
from core.engine.registry import DETECTORS
from core.engine.tensors import to_batch


@dataclass(frozen=True)
class NearestConfig(Config):
    """Options of the nearest-patch detector.

    strides: Strides of the maps that are used, from fine to coarse. Patches lie on the grid of the finest map.
    patches: Maximum number of patches in the memory.
    pool: Number of patches that are sampled from all images together, from which the memory is selected.
    coreset: How the memory is selected. `greedy` always adds the patch farthest from the selected ones. `random` is
        faster, but common patches dominate.
    position: Weight of the position: the distance, in standard deviations of the features, between equal patches one
        image side apart. 0 ignores the position, as in PatchCore.
    balance: Whether the features of each stride are scaled to the same variance first.
    neighbours: Number of neighbours of the nearest patch by which PatchCore re-weights the score. 0 disables
        re-weighting.
    whitened: Whether to use squared Mahalanobis distances. Position and balance then have no effect.
    variance: Minimum fraction of the variance that the principal components in the whitening explain together.
    shrinkage: Weight of the mean variance when the variances of the components are shrunk towards their mean.
    sigma: Standard deviation of the heat map's Gaussian blur, in pixels of a 256 x 256 image.
    batch: Number of images per step of the fit.
    seed: Seed of the pool and the coreset.
    """

    strides: tuple[int, ...] = (8, 16)
    patches: int = option(4000, low=1)
    pool: int = 20_000
    coreset: str = option("greedy", choices=("greedy", "random"))
    position: float = option(0.0, low=0)
    balance: bool = False
    neighbours: int = option(9, low=0)
    whitened: bool = False
    variance: float = option(0.99, above=0, high=1)
    shrinkage: float = option(0.07, low=0, high=1)
    sigma: float = option(4.0, low=0)
    batch: int = option(32, low=1)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pool < self.patches:
            raise BadConfig(f"the pool must be at least as large as the memory, {self.patches}, not {self.pool}")
        if not in_order(self.strides):
            raise BadConfig(f"strides must be some of {', '.join(map(str, STRIDES))}, in order, not {self.strides}")


@DETECTORS.register("nearest", title="Nearest patches", compares=True, section="PatchCore, Roth et al. 2022")
class Nearest(MapDetector):
    """Detector that compares each patch of an image with the most similar patch of normal images."""

    name = "nearest"
    scales: Tensor  # factors or matrix for `scaled`
    Config = NearestConfig
    presets = {
        "paper": NearestConfig(patches=8000, pool=40_000),
        "quick": NearestConfig(),
        "whitened": NearestConfig(patches=1000, whitened=True),
    }

    def __init__(self, encoder: Encoder, config: NearestConfig, size: int, scales: Tensor, memory: Memory) -> None:
        super().__init__()
        self.encoder, self.config, self.size, self.memory = encoder, config, size, memory
        self.register_buffer("scales", scales)

    @property
    def power(self) -> int:
        """Exponent of the distances in the heat map and the score: 2 if whitened, 1 otherwise."""
        return 2 if self.config.whitened else 1

    @classmethod
    def fitting(
        cls, encoder: Encoder, config: NearestConfig, count: int, size: int, context: FitContext
    ) -> NearestFitting:
        if count < 1:
            raise ValueError("the nearest-patch detector needs at least 1 normal image")
        return NearestFitting(cls, encoder, config, count, size, context.roi)

    def read(self, maps: dict[int, Tensor], roi: Tensor | None = None) -> dict[str, Tensor]:
        """Computes smoothed `maps`, unsmoothed `distance` and PatchCore's `weight`, each `(B, h, w)`. Ignores `roi`."""
        queries = patches_of(maps, self.config.strides)
        shape = queries.shape[:3]
        distances, weights = self.memory.weighted(scaled(queries, self.scales).flatten(0, 2), self.power)
        heat = distances.pow(self.power).view(shape)
        return {"maps": blur(heat, self.config.sigma * shape[1] / 256), "distance": heat, "weight": weights.view(shape)}

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Computes the scores, `(B,)`: the largest distance in the region of interest, times its weight."""
        weighted = (values["distance"] * values["weight"]).flatten(1)
        return weighted.gather(1, _peak(values, roi)[:, None])[:, 0]

    @torch.inference_mode()
    def explain(
        self, images: np.ndarray, points: np.ndarray | None = None, roi: np.ndarray | None = None, batch: int = 32
    ) -> list[Match]:
        """Finds the normal patch that is most similar to one patch of each image, and returns one `Match` per image.

        Args:
            images: RGB images, `uint8 (N, S, S, 3)`.
            points: Pixel (x, y) of each image inside the patch to explain, `(N, 2)`. Defaults to the patch with the
                largest distance.
            roi: Regions of interest, `uint8 (N, S, S)`, to which the search for the largest distance is limited. Not
                used if `points` is given.
            batch: Number of images that are processed at a time.
        """
        device, matches = self.scales.device, []
        for start in range(0, len(images), batch):
            cut = slice(start, start + batch)
            maps = self.reader.maps(to_batch(np.asarray(images[cut]), device), self.config.strides)
            queries = scaled(patches_of(maps, self.config.strides), self.scales)
            side = queries.shape[1]
            if points is None:
                region = None if roi is None else torch.from_numpy(np.array(roi[cut])).to(device)
                cells = _peak(self.read(maps), region)
            else:
                x, y = (np.clip(np.asarray(points[cut]).T * side // self.size, 0, side - 1)).astype(np.int64)
                cells = torch.from_numpy(y * side + x).to(device)
            distances, index = self.memory.search(queries.flatten(1, 2)[torch.arange(len(cells), device=device), cells])
            rows, origin_cells = (column[index[:, 0]].tolist() for column in (self.memory.rows, self.memory.cells))
            for cell, row, origin_cell, distance in zip(
                cells.tolist(), rows, origin_cells, distances[:, 0].tolist(), strict=True
            ):
                box, origin = (box_of(c, side, self.size) for c in (cell, origin_cell))
                matches.append(Match(box, origin, row=row, distance=distance))
        return matches

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        scales = tensors.pop("scales")
        memory = Memory(**{name.removeprefix("memory."): value for name, value in tensors.items()})
        return cls(within["encoder"], config, size, scales, memory)


def _peak(values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
    """Returns the flat position of each image's largest distance, `(B,)`. An empty region means the whole image."""
    distance = values["distance"]
    return torch.where(counting(distance, roi), distance, -1.0).flatten(1).argmax(1)


@dataclass(frozen=True)
class Match:
    """Patch of an image and the most similar normal patch.

    Boxes are (x0, y0, x1, y1) in pixels and enclose the 3 x 3 cells over which a patch's features are averaged.
    """

    box: tuple[float, float, float, float]
    there: tuple[float, float, float, float]  # box of the normal patch in its own image
    row: int  # index of that image among the images of the fit
    distance: float  # Euclidean distance between the scaled features of both patches


def box_of(cell: int, side: int, size: int) -> tuple[float, float, float, float]:
    """Returns the box in pixels of the 3 x 3 cells around the flat index `cell` of a grid, clipped to the image."""
    y, x = divmod(cell, side)
    step = size / side
    (x0, x1), (y0, y1) = ((max(at - 1, 0) * step, min(at + 2, side) * step) for at in (x, y))
    return x0, y0, x1, y1

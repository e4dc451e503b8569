"""Mahalanobis distances of pre-trained features, of images and of their positions (Rippel, Mertens, Merhof 2021).

An image's score is the distance of its average-pooled features from the pooled features of normal images. The heat map
shows the distance of each position from all positions of normal images. Nothing is trained. Features are compared
regardless of their position, so images need not be aligned. Both covariances are shrunk towards a multiple of the
identity by oracle approximating shrinkage, as in scikit-learn; Rippel et al. use the shrinkage of Ledoit and Wolf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import Self

from core.engine.backbones.base import in_order
from core.engine.backbones.config import STRIDES
from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import blur, covered, inside_of
from core.engine.config import BadConfig, Config, option
from core.engine.detectors.base import FitContext
from core.engine.detectors.map_detector import MapDetector
from core.engine.registry import DETECTORS


@dataclass(frozen=True)
class MahalanobisConfig(Config):
    """Options of the Mahalanobis detector.

    strides: Strides of the maps that are average-pooled and concatenated for the score.
    map_strides: Strides of the maps that are compared position by position for the heat map.
    sigma: Standard deviation of the heat map's Gaussian blur, in pixels of a 256 x 256 image.
    batch: Number of images per step of the fit.
    """

    strides: tuple[int, ...] = (4, 8, 16, 32)
    map_strides: tuple[int, ...] = (16, 32)
    sigma: float = option(4.0, low=0)
    batch: int = option(32, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for strides in (self.strides, self.map_strides):
            if not in_order(strides):
                raise BadConfig(f"strides must be some of {', '.join(map(str, STRIDES))}, in order, not {strides}")
        if not set(self.map_strides) <= set(self.strides):
            raise BadConfig(f"map_strides must be some of strides, {self.strides}, not {self.map_strides}")


class Normal(nn.Module):
    """Multivariate normal distribution, with a whitening matrix W, `(D, D)`, such that W^T W is the precision."""

    mean: Tensor
    whitening: Tensor

    def __init__(self, mean: Tensor, whitening: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("whitening", whitening)

    def distance(self, x: Tensor) -> Tensor:
        """Computes the Mahalanobis distances of vectors x, `(..., D)`: sqrt((x - mean)^T precision (x - mean))."""
        return distance(x, self.mean, self.whitening)


def distance(x: Tensor, mean: Tensor, whitening: Tensor) -> Tensor:
    """Computes the Mahalanobis distances of vectors x, `(..., D)`, given a mean, `(D,)`, and a whitening, `(D, D)`."""
    return ((x - mean) @ whitening.T).norm(dim=-1)


class Scatter:
    """Running count, sum and sum of outer products of samples. Memory use does not grow with the number of samples."""

    def __init__(self) -> None:
        self.count, self.sum, self.outer = 0, torch.zeros(()), torch.zeros(())

    def add(self, x: Tensor) -> None:
        x = x.double()
        self.count += len(x)
        self.sum, self.outer = self.sum + x.sum(0), self.outer + x.T @ x

    def normal(self) -> Normal:
        """Estimates the normal distribution, with a covariance shrunk by OAS (Chen et al. 2010, Eq. 23).

        OAS is oracle approximating shrinkage. Its terms 2 / d are omitted as in scikit-learn, because d is large.
        """
        n, d = self.count, self.sum.shape[0]
        mean = self.sum / n
        covariance = self.outer / n - mean[:, None] * mean
        scale = covariance.diagonal().mean()
        alpha = (covariance**2).mean()
        shrinkage = min(1.0, float((alpha + scale**2) / ((n + 1) * (alpha - scale**2 / d)).clamp_min(1e-30)))
        least = max(float(scale), 1e-12)
        shrunk = (1 - shrinkage) * covariance
        shrunk.diagonal().add_(shrinkage * scale + 1e-6 * least)
        lower = torch.linalg.cholesky(shrunk)
        whitening = torch.linalg.solve_triangular(
            lower, torch.eye(d, dtype=lower.dtype, device=lower.device), upper=False
        )
        return Normal(mean.float(), whitening.float().contiguous())


@DETECTORS.register("mahalanobis", title="Mahalanobis of pooled features")
class Mahalanobis(MapDetector):
    """Detector that scores images by the Mahalanobis distance of their pooled features.

    Predictions have the extra `pooled`, the distance of each whole image. If regions of interest are given in the fit
    and in the prediction, they also have `pooled_roi`, the distance of each region of interest.
    """

    name = "mahalanobis"
    Config = MahalanobisConfig

    def __init__(self, encoder: Encoder, config: MahalanobisConfig, size: int, normals: dict[str, Normal]) -> None:
        super().__init__()
        self.encoder, self.config, self.size = encoder, config, size
        self.normals = cast(dict[str, Normal], nn.ModuleDict(normals))

    @classmethod
    def fitting(
        cls, encoder: Encoder, config: MahalanobisConfig, count: int, size: int, context: FitContext
    ) -> MahalanobisFitting:
        if count < 2:
            raise ValueError(f"the Mahalanobis detector needs at least 2 normal images, not {count}")
        return MahalanobisFitting(encoder, config, size, context.roi)

    def read(self, maps: dict[int, Tensor], roi: Tensor | None = None) -> dict[str, Tensor]:
        """Computes `maps`, `(B, S/16, S/16)` by default, and the extras of the class. Only extras depend on `roi`."""
        features = features_of(maps, self.config, roi if "pooled_roi" in self.normals else None)
        heat = self.normals["cells"].distance(features["cells"])
        names: list[str] = [name for name in ("pooled", "pooled_roi") if name in features]
        distances = {name: self.normals[name].distance(features[name]) for name in names}
        return {"maps": blur(heat, self.config.sigma * heat.shape[1] / 256), **distances}

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Returns the distances of pooled features, `(B,)`: of the region of interest if known, else of the image."""
        return values["pooled_roi" if roi is not None and "pooled_roi" in values else "pooled"]

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        names = [name.split(".")[1] for name in tensors if name.endswith(".mean")]
        normals = {n: Normal(tensors[f"normals.{n}.mean"], tensors[f"normals.{n}.whitening"]) for n in names}
        return cls(within["encoder"], config, size, normals)


class MahalanobisFitting:
    """Fit in progress, with the scatters of pooled features and of the features at all positions."""

    def __init__(self, encoder: Encoder, config: MahalanobisConfig, size: int, roi: np.ndarray | None) -> None:
        self.encoder, self.config, self.size, self.roi = encoder, config, size, roi
        names = ("pooled", "cells") if roi is None else ("pooled", "cells", "pooled_roi")
        self.scatter = {name: Scatter() for name in names}

    def add(self, maps: dict[int, Tensor], start: int) -> None:
        count = len(next(iter(maps.values())))
        roi = None
        if self.roi is not None:
            roi = torch.from_numpy(np.array(self.roi[start : start + count])).to(self.encoder.mean.device)
        features = features_of(maps, self.config, roi)
        inside, cells = features.pop("inside"), features.pop("cells")
        self.scatter["cells"].add(cells[inside])
        for name, values in features.items():
            self.scatter[name].add(values)

    def finish(self) -> Mahalanobis:
        normals = {name: scatter.normal() for name, scatter in self.scatter.items() if scatter.count > 1}
        return Mahalanobis(self.encoder, self.config, self.size, normals)


def features_of(maps: dict[int, Tensor], config: MahalanobisConfig, roi: Tensor | None) -> dict[str, Tensor]:
    """Computes pooled and local features by name from maps, `(B, C, h, w)`, by stride.

    The result has `pooled`, `(B, D)`; `cells`, `(B, h, w, D')`, on the grid of the finest map stride; and `inside`,
    `bool (B, h, w)`, True for positions in the region of interest, or everywhere without `roi`. If `roi`, `(B, S, S)`,
    is given, the result also has `pooled_roi`, `(B, D)`, averaged over the region of interest.
    """
    finest = maps[config.map_strides[0]]
    grid = finest.shape[-2:]
    cells = [F.interpolate(maps[s], grid, mode="bilinear", align_corners=False) for s in config.map_strides]
    out = {
        "pooled": torch.cat([maps[s].mean((2, 3)) for s in config.strides], 1).float(),
        "cells": torch.cat(cells, 1).permute(0, 2, 3, 1).float(),
        "inside": torch.ones(finest.shape[0], *grid, dtype=torch.bool, device=finest.device),
    }
    if roi is not None:
        weights = {s: covered(roi, maps[s].shape[-2:])[:, None] for s in config.strides}
        pooled = [(maps[s] * w).sum((2, 3)) / w.sum((2, 3)).clamp_min(1e-6) for s, w in weights.items()]
        out["pooled_roi"] = torch.cat(pooled, 1).float()
        out["inside"] = inside_of(roi, grid)
    return out

"""PaDiM: a Gaussian of normal features at every position, and the Mahalanobis distance from that Gaussian (Eq. 13).

The encoder's maps at strides 4 to 16 (layers 1 to 3 of a ResNet) are concatenated on the finest grid by nearest
up-sampling. 100 of their channels, drawn once at random, are used. Nothing is trained: the fit reads each normal image
once.

The paper leaves two choices open. Here the heat map is smoothed (Gaussian with a sigma of 4 at 256 pixels, as in the
original PaDiM paper) on the finest grid before up-sampling, which takes little time, and the image's score is the
maximum of the smoothed map.
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
from core.engine.calibration.heatmap import blur, roi_at
from core.engine.config import BadConfig, Config, option
from core.engine.detectors.base import FitContext, Tensors
from core.engine.detectors.gaussian import Gaussian, Moments
from core.engine.detectors.map_detector import MapDetector
from core.engine.registry import DETECTORS


@dataclass(frozen=True)
class PaDiMConfig(Config):
    """Options of PaDiM.

    strides: Strides of the maps that are used, from fine to coarse.
    channels: Number of channels that are drawn at random and used.
    epsilon: Number that is added to the diagonal of each covariance.
    sigma: Standard deviation of the heat map's Gaussian blur, in pixels of a 256 x 256 image.
    batch: Number of images per step of the fit.
    seed: Seed for drawing the channels.
    """

    strides: tuple[int, ...] = (4, 8, 16)
    channels: int = option(100, low=1)
    epsilon: float = option(0.01, above=0)
    sigma: float = option(4.0, low=0)
    batch: int = option(32, low=1)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not in_order(self.strides):
            raise BadConfig(f"strides must be some of {', '.join(map(str, STRIDES))}, in order, not {self.strides}")


@DETECTORS.register("padim", title="PaDiM", section="Anomaly Detection and Segmentation")
class PaDiM(MapDetector):
    """Detector with a Gaussian distribution of normal features at each position."""

    name = "padim"
    Config = PaDiMConfig
    presets = {"paper": PaDiMConfig(), "quick": PaDiMConfig()}  # a single pass is quick already

    def __init__(
        self, encoder: Encoder, config: PaDiMConfig, channels: dict[int, Tensor], gaussian: Gaussian, size: int
    ) -> None:
        super().__init__()
        self.encoder, self.config, self.gaussian, self.size = encoder, config, gaussian, size
        self.channels = Tensors({str(stride): index for stride, index in channels.items()})

    @classmethod
    def fitting(cls, encoder: Encoder, config: PaDiMConfig, count: int, size: int, context: FitContext) -> PaDiMFitting:
        """Starts a fit. Raises ValueError for fewer than 2 images, or if the configuration asks for too many channels.

        The Gaussians take about 9 kB of memory per position of stride 4, whatever `count` is.
        """
        if count < 2:
            raise ValueError(f"PaDiM needs at least 2 normal images, not {count}")
        widths = {stride: encoder.widths[stride] for stride in config.strides}
        channels = draw_channels(widths, config.channels, config.seed, torch.device(context.device))
        return PaDiMFitting(encoder, config, channels, size)

    def read(self, maps: dict[int, Tensor], roi: Tensor | None = None) -> dict[str, Tensor]:
        """Computes `maps`, the smoothed distances, `(B, S/4, S/4)` if the finest stride is 4. Does not use `roi`."""
        heat = self.gaussian.distance([maps[stride].index_select(1, index) for stride, index in self.kept.items()])
        return {"maps": blur(heat, self.config.sigma * heat.shape[1] / 256)}

    @property
    def kept(self) -> dict[int, Tensor]:
        """Indices of the channels that are used, `(n,)`, by stride."""
        return {int(stride): index for stride, index in self.channels.items()}

    def alignment(self, count: int, known: np.ndarray | None = None) -> float:
        """Measures how well the normal images of the fit are aligned with each other.

        Args:
            count: Number of images of the fit.
            known: Positions to use, `bool (h, w)` on any grid. Defaults to all positions.

        Returns:
            The fraction of the features' variance at the coarsest stride that the position explains, from 0 to 1. The
            fraction is high for objects that have the same pose in every image.
        """
        grid = self.gaussian.pyramid.grids[0]
        mean, variance = (x.cpu().numpy() for x in self.gaussian.coarsest())
        variance = np.maximum(variance - self.config.epsilon, 0)
        if known is not None:
            selected = roi_at(known[None].astype(np.uint8), grid)[0].ravel()
            mean, variance = (mean[selected], variance[selected]) if selected.sum() > 1 else (mean, variance)
        within = variance.mean(0)
        between = np.maximum(mean.var(0) - within / count, 0)  # without the sampling error of the means
        return float(between.sum() / (between + within).sum())

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        channels = {int(stride): index for stride, index in Tensors.below("channels.", tensors).items()}
        gaussian = Gaussian.of(Tensors.below("gaussian.", tensors))
        return cls(within["encoder"], config, {s: channels[s] for s in config.strides if s in channels}, gaussian, size)


class PaDiMFitting:
    """Fit of PaDiM in progress, with the running moments of the features."""

    def __init__(self, encoder: Encoder, config: PaDiMConfig, channels: dict[int, Tensor], size: int) -> None:
        self.encoder, self.config, self.kept, self.size = encoder, config, channels, size
        self.moments = Moments()

    def add(self, maps: dict[int, Tensor], start: int) -> None:
        self.moments.add([maps[stride].index_select(1, index) for stride, index in self.kept.items()])

    def finish(self) -> PaDiM:
        return PaDiM(self.encoder, self.config, self.kept, self.moments.finish(self.config.epsilon), self.size)


def draw_channels(widths: dict[int, int], channels: int, seed: int, device: torch.device) -> dict[int, Tensor]:
    """Draws `channels` channels at random from all strides and returns their indices, `(n,)`, by stride.

    Strides without drawn channels are omitted. Raises ValueError if there are too few channels.
    """
    total = sum(widths.values())
    if channels > total:
        raise ValueError(f"PaDiM cannot use {channels} of {total} channels; set channels to {total} or fewer")
    chosen = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:channels].sort().values
    by_stride, start = {}, 0
    for stride, width in widths.items():
        index = chosen[(chosen >= start) & (chosen < start + width)] - start
        if len(index):
            by_stride[stride] = index.to(device)
        start += width
    return by_stride

"""PaDiM: a Gaussian of normal features at every position, and the Mahalanobis distance from it (Eq. 13).

The encoder's maps at strides 4 to 16 (layers 1-3 of a ResNet), joined by nearest up-sampling on the finest grid, of
which 100 random channels are kept. The channels are drawn once from the seed and saved. Nothing is trained: one pass
over the normal images fits it.

Two choices the paper leaves open. Smoothing (Gaussian, sigma 4 at 256 pixels, as in PaDiM's own paper) is done on
the finest grid, before up-sampling, where it costs nothing. And the image's score is the maximum of that smoothed map.
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
from core.engine.config import BadConfig, Config
from core.engine.detectors.base import FitContext, Prediction, Tensors
from core.engine.detectors.gaussian import Gaussian, Moments
from core.engine.detectors.map_detector import MapDetector
from core.engine.registry import DETECTORS


@dataclass(frozen=True)
class PaDiMConfig(Config):
    """strides: of the maps, from fine to coarse. channels: how many of them all are kept.

    epsilon: added to each variance.
    sigma: of the blur, in pixels at 256 x 256; it scales with the image. batch: images per step of the fit.
    """

    strides: tuple[int, ...] = (4, 8, 16)
    channels: int = 100
    epsilon: float = 0.01
    sigma: float = 4.0
    batch: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        if not in_order(self.strides):
            raise BadConfig(f"PaDiM's strides are some of {', '.join(map(str, STRIDES))}, in order; not {self.strides}")
        if self.channels < 1 or self.batch < 1:
            raise BadConfig("PaDiM's channels and batch must be at least 1")
        if self.epsilon <= 0 or self.sigma < 0:
            raise BadConfig("PaDiM's epsilon must be above 0, and its sigma 0 or more")


@DETECTORS.register("padim", title="PaDiM", section="Anomaly Detection and Segmentation")
class PaDiM(MapDetector):
    name = "padim"
    Config = PaDiMConfig
    presets = {"paper": PaDiMConfig(), "quick": PaDiMConfig()}  # one pass is quick already

    def __init__(
        self, encoder: Encoder, config: PaDiMConfig, channels: dict[int, Tensor], gaussian: Gaussian, size: int
    ) -> None:
        super().__init__()
        self.encoder, self.config, self.gaussian, self.size = encoder, config, gaussian, size
        self.channels = Tensors({str(stride): index for stride, index in channels.items()})

    @classmethod
    def fitting(cls, encoder: Encoder, config: PaDiMConfig, count: int, size: int, context: FitContext) -> PaDiMFitting:
        """Starts a fit on `count` images, 2 or more.

        Its memory is that of the Gaussians (about 9 kB per cell of stride 4), whatever `count` is.
        """
        if count < 2:
            raise ValueError(f"PaDiM needs at least 2 normal images; there are {count}")
        widths = {stride: encoder.widths[stride] for stride in config.strides}
        channels = draw_channels(widths, config.channels, config.seed, torch.device(context.device))
        return PaDiMFitting(encoder, config, channels, size)

    def read(self, maps: dict[int, Tensor], roi: np.ndarray | None = None) -> Prediction:
        """Reads a batch: maps of smoothed distances, (B, S/4, S/4) if the finest of its strides is 4."""
        heat = self.distances(maps)
        return Prediction(blur(heat, self.config.sigma * heat.shape[1] / 256).cpu().numpy())

    def distances(self, maps: dict[int, Tensor]) -> Tensor:
        """Computes the distances (B, h, w) on the finest grid, not smoothed."""
        return self.gaussian.distance([maps[stride].index_select(1, index) for stride, index in self.kept.items()])

    @property
    def kept(self) -> dict[int, Tensor]:
        """Indices of the channels that are kept, by stride."""
        return {int(stride): index for stride, index in self.channels.items()}

    def alignment(self, count: int, known: np.ndarray | None = None) -> float:
        """Measures how alike the `count` normal images of the fit are place by place.

        Returns the share, 0 to 1, of the variance of their features at its coarsest stride that the place explains. It
        is high for objects that always lie alike. known: bool (h, w) on any grid, the places that count; None for all.
        """
        grid = self.gaussian.pyramid.grids[0]
        mean, variance = (x.cpu().numpy() for x in self.gaussian.coarsest())
        variance = np.maximum(variance - self.config.epsilon, 0)
        if known is not None:
            asked = roi_at(known[None].astype(np.uint8), grid)[0].ravel()
            mean, variance = (mean[asked], variance[asked]) if asked.sum() > 1 else (mean, variance)
        within = variance.mean(0)
        between = np.maximum(mean.var(0) - within / count, 0)  # of the means' scatter, what `count` images bring alone
        return float(between.sum() / (between + within).sum())

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        channels = {int(stride): index for stride, index in Tensors.below("channels.", tensors).items()}
        gaussian = Gaussian.of(Tensors.below("gaussian.", tensors))
        return cls(within["encoder"], config, {s: channels[s] for s in config.strides if s in channels}, gaussian, size)


class PaDiMFitting:
    """A fit of PaDiM in progress: its running moments."""

    def __init__(self, encoder: Encoder, config: PaDiMConfig, channels: dict[int, Tensor], size: int) -> None:
        self.encoder, self.config, self.kept, self.size = encoder, config, channels, size
        self.moments = Moments()

    def add(self, maps: dict[int, Tensor], start: int) -> None:
        self.moments.add([maps[stride].index_select(1, index) for stride, index in self.kept.items()])

    def finish(self) -> PaDiM:
        return PaDiM(self.encoder, self.config, self.kept, self.moments.finish(self.config.epsilon), self.size)


def draw_channels(widths: dict[int, int], channels: int, seed: int, device: torch.device) -> dict[int, Tensor]:
    """Draws the channels of each stride that are kept: `channels` in all; a stride may keep none."""
    total = sum(widths.values())
    if channels > total:
        raise ValueError(f"PaDiM cannot keep {channels} channels of {total}; set channels to {total} or fewer")
    drawn = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:channels].sort().values
    by_stride, start = {}, 0
    for stride, width in widths.items():
        own = drawn[(drawn >= start) & (drawn < start + width)] - start
        if len(own):
            by_stride[stride] = own.to(device)
        start += width
    return by_stride

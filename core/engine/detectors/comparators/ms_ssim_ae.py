"""The auto-encoder with an MS-SSIM loss: IGD without its classifier and its critic (Chen et al. 2021, Eq. 3).

The tables cite IGD's paper for it. Loss weights and windows are IGD's; it is trained from random weights on whole
images only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from core.engine.backbones.encoder import Encoder
from core.engine.detectors.base import Prediction
from core.engine.detectors.comparators.nets import ConvCode, NetConfig, NetDetector, NetTraining, descend, mean_inside
from core.engine.detectors.igd.losses import Reconstruction
from core.engine.detectors.igd.networks import Generator
from core.engine.losses.ms_ssim import WEIGHTS, fit_levels
from core.engine.registry import DETECTORS


@dataclass(frozen=True)
class MSSSIMConfig(NetConfig):
    """Options: rho, the share of L1 in the loss, the rest being 1 - MS-SSIM; window of MS-SSIM in pixels."""

    lr: float = 1e-4
    rho: float = 0.15
    window: int = 11


class AutoEncoder(nn.Module):
    def __init__(self, config: MSSSIMConfig, size: int) -> None:
        super().__init__()
        self.code = ConvCode(size, config.latent, config.width)
        self.generator = Generator(size, config.latent, config.width)
        levels = fit_levels(size, config.window, WEIGHTS)
        self.reconstruction = Reconstruction(config.window, levels, config.rho, "unit")

    def forward(self, x: Tensor) -> Tensor:
        back: Tensor = self.generator(self.code(x))
        return back


class MSSSIMTraining(NetTraining):
    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        loss = self.net.reconstruction(x, self.net(x)).mean()
        descend(self.optimisers["optimiser"], loss)
        return {"loss": loss}


@DETECTORS.register(
    "ms-ssim-ae", title="MS-SSIM auto-encoder", section="Table detection; Chen et al. 2021", own_network=True
)
class MSSSIMAutoEncoder(NetDetector):
    """The MS-SSIM auto-encoder. Score: the loss, or in a region of interest the mean of the residual map."""

    name = "ms-ssim-ae"
    Config = MSSSIMConfig
    Training = MSSSIMTraining
    presets = {"paper": MSSSIMConfig(), "quick": MSSSIMConfig(steps=300, batch=16, lr=2e-3, width=16, latent=64)}

    @classmethod
    def build(cls, encoder: Encoder, config: MSSSIMConfig, size: int) -> nn.Module:
        return AutoEncoder(config, size)

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        back = self.net(x)
        return {"maps": self.net.reconstruction.map(x, back), "rec": self.net.reconstruction(x, back)}

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        rec: np.ndarray = prediction.extras["rec"]
        return rec if roi is None else mean_inside(prediction.maps, roi)

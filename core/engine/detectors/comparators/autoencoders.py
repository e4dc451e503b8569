"""Auto-encoders with which the paper compares PMSACL: DAE, and an auto-encoder with an MS-SSIM loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import mean_inside
from core.engine.detectors.comparators.nets import ConvCode, NetConfig, NetDetector, NetTraining, descend
from core.engine.detectors.igd.model import Generator, Reconstruction
from core.engine.losses.ms_ssim import WEIGHTS, fit_levels
from core.engine.registry import DETECTORS
from core.engine.tensors import to_device


@dataclass(frozen=True)
class DAEConfig(NetConfig):
    """Options of DAE.

    latent: Number of channels of the coarsest maps, which are 4 to 7 cells wide.
    noise: Fraction of the input pixels that are set to 0 in training (Masci et al. compare 0, 0.3 and 0.5).
    """

    latent: int = 8
    noise: float = 0.0


class TiedAutoEncoder(nn.Module):
    """Auto-encoder with tied weights: each layer has a filter bank W, an encoder bias b and a decoder bias c."""

    def __init__(self, size: int, width: int, latent: int) -> None:
        super().__init__()
        depth = max(int(math.log2(size / 4)), 1)
        wide = [3, *(width * 2 ** min(i, 2) for i in range(depth - 1)), latent]
        self.filters = nn.ParameterList()
        self.forth, self.back = nn.ParameterList(), nn.ParameterList()
        for a, b in zip(wide, wide[1:], strict=False):
            self.filters.append(nn.Parameter(nn.init.xavier_uniform_(torch.empty(b, a, 3, 3))))
            self.forth.append(nn.Parameter(torch.zeros(b)))
            self.back.append(nn.Parameter(torch.zeros(a)))

    def forward(self, x: Tensor) -> Tensor:
        """Reconstructs images. Layers encode by maxpool(tanh(x * W + b)) and decode by tanh(h * flipped W + c)."""
        y, sides = 2 * x - 1, []
        for w, b in zip(self.filters, self.forth, strict=True):
            y = torch.tanh(F.conv2d(y, w, b, padding=1))
            sides.append(y.shape[-1])
            y = F.max_pool2d(y, 2)
        for w, c, side in zip(reversed(self.filters), reversed(self.back), reversed(sides), strict=True):
            y = F.interpolate(y, (side, side))
            y = torch.tanh(F.conv_transpose2d(y, w, c, padding=1))  # the transposed convolution flips the filters
        return (y + 1) / 2


class DAETraining(NetTraining):
    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        inputs = x
        if self.config.noise:
            intact = torch.rand(x.shape[0], 1, *x.shape[2:], generator=draws) >= self.config.noise
            inputs = x * to_device(intact, x.device)
        loss = (self.net(inputs) - x).square().mean() / 2  # E = 1/2n sum of (x - y)^2
        descend(self.optimisers["optimiser"], loss)
        return {"loss": loss}


@DETECTORS.register("dae", title="DAE", section="Table detection; Masci et al. 2011", own_network=True)
class DAE(NetDetector):
    """DAE, the deep convolutional auto-encoder (Masci et al. 2011, "Stacked Convolutional Auto-Encoders").

    Each layer consists of a convolution, tanh and max-pooling. An image is reconstructed from its feature maps with the
    same filters, flipped along both axes. The PMSACL paper only says "deep autoencoder". Our choices are nearest
    up-sampling to undo pooling, training all layers at once instead of one after another, and Adam. The score of an
    image is the mean squared error of its reconstruction.
    """

    name = "dae"
    Config = DAEConfig
    Training = DAETraining
    presets = {"paper": DAEConfig(), "quick": DAEConfig(steps=400, batch=16, lr=2e-3, width=16)}

    @classmethod
    def build(cls, encoder: Encoder, config: DAEConfig, size: int) -> nn.Module:
        return TiedAutoEncoder(size, config.width, config.latent)

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        return {"maps": (self.net(x) - x).square().mean(1)}


@dataclass(frozen=True)
class MSSSIMConfig(NetConfig):
    """Options of the MS-SSIM auto-encoder.

    rho: Weight of L1 in the loss. The weight of 1 - MS-SSIM is 1 - rho.
    window: Side length of the Gaussian window in pixels.
    """

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
    """Auto-encoder with an MS-SSIM loss, that is, IGD without its classifier and its critic (Chen et al. 2021, Eq. 3).

    The PMSACL paper cites IGD's paper as the source. Loss weights and windows are the same as in IGD. The networks are
    trained from random weights, and only on whole images. The score of an image is its loss. With a region of interest,
    the score is the mean of the residual map in the region.
    """

    name = "ms-ssim-ae"
    Config = MSSSIMConfig
    Training = MSSSIMTraining
    Net = AutoEncoder
    presets = {"paper": MSSSIMConfig(), "quick": MSSSIMConfig(steps=300, batch=16, lr=2e-3, width=16, latent=64)}

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        back = self.net(x)
        return {"maps": self.net.reconstruction.map(x, back), "rec": self.net.reconstruction(x, back)}

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        return values["rec"] if roi is None else mean_inside(values["maps"], roi)

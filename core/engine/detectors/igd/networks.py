"""IGD's networks besides the encoder: the layer to the latent space, the generator and the critic."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.detectors.igd.losses import feature_scale


class Code(nn.Module):
    """The linear layer from backbone features (B, F) to the latent space (B, 128).

    The features are first scaled to mean 0 and mean variance 1 over the normal images. The linear layer could learn
    this, but the codes of an encoder with small features would then not start at the unit scale of the centre.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, features: int, latent: int = 128) -> None:
        super().__init__()
        self.linear = nn.Linear(features, latent)
        self.register_buffer("shift", torch.zeros(features))
        self.register_buffer("scale", torch.ones(()))

    def adapt(self, blocks: Iterable[Tensor]) -> None:
        """Computes shift and scale from the backbone features of the normal images, in blocks (n, F)."""
        shift, scale = feature_scale(blocks)
        self.shift.copy_(shift)
        self.scale.copy_(scale)

    def forward(self, h: Tensor) -> Tensor:
        return self.linear((h - self.shift) * self.scale)


class Generator(nn.Module):
    """The generator g_phi: latent (B, 128) -> image (B, 3, S, S) in [0, 1].

    It uses nearest up-sampling and convolutions, which cause no checkerboard artefacts. width: channels at full
    resolution; they double with each halving of it, up to 512.
    """

    def __init__(self, size: int, latent: int = 128, width: int = 32) -> None:
        super().__init__()
        steps = max(int(math.log2(size / 4)), 0)
        self.size, self.start = size, -(-size // 2**steps)
        wide = [min(width * 2**i, 512) for i in range(steps, -1, -1)]
        self.first = nn.Sequential(
            nn.Linear(latent, wide[0] * self.start**2), nn.Unflatten(1, (wide[0], self.start, -1))
        )
        self.open = nn.Sequential(nn.BatchNorm2d(wide[0]), nn.ReLU(inplace=True))
        self.up = nn.Sequential(*(self._step(a, b) for a, b in zip(wide, wide[1:], strict=False)))
        self.last = nn.Conv2d(wide[-1], 3, 3, padding=1)

    @staticmethod
    def _step(a: int, b: int) -> nn.Module:
        conv = nn.Conv2d(a, b, 3, padding=1, bias=False)
        return nn.Sequential(nn.Upsample(scale_factor=2), conv, nn.BatchNorm2d(b), nn.ReLU(inplace=True))

    def forward(self, z: Tensor) -> Tensor:
        x = self.last(self.up(self.open(self.first(z))))
        if x.shape[2] != self.size:  # the side is not a power of two times 4 to 7
            x = F.interpolate(x, (self.size, self.size), mode="bilinear", align_corners=False)
        return torch.sigmoid(x.float())


class Critic(nn.Module):
    """The critic: image (B, 3, S, S) -> (B,), the share of the second image in a mixture (Berthelot et al. 2018)."""

    def __init__(self, size: int, width: int = 32) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels, depth = 3, min(4, max(int(math.log2(size / 4)), 1))
        for i in range(depth):
            layers += [nn.Conv2d(channels, width * 2**i, 3, stride=2, padding=1), nn.LeakyReLU(0.2, inplace=True)]
            channels = width * 2**i
        self.body = nn.Sequential(*layers, nn.Conv2d(channels, 1, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x - 0.5).float().mean((1, 2, 3))

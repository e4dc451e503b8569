"""Networks that several of the paper's comparators share: an encoder into a code, and critics of images and codes."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def noise(like: Tensor, draws: torch.Generator, *shape: int) -> Tensor:
    """Standard normal draws of `shape`, (as `like` without one), made on the CPU, on the device of `like`."""
    return torch.randn(shape or like.shape, generator=draws).to(like.device)


class ConvCode(nn.Module):
    """Image (B, 3, S, S) in [0, 1] -> code (B, latent): strided convolutions down to 4 to 7 cells a side, one layer."""

    def __init__(self, size: int, latent: int, width: int) -> None:
        super().__init__()
        depth = max(int(math.log2(size / 4)), 1)
        layers: list[nn.Module] = []
        channels, side = 3, size
        for i in range(depth):
            wide = min(width * 2**i, 512)
            layers += [nn.Conv2d(channels, wide, 4, stride=2, padding=1, bias=False), nn.BatchNorm2d(wide)]
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            channels, side = wide, side // 2
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side**2, latent))

    def forward(self, x: Tensor) -> Tensor:
        code: Tensor = self.body(x - 0.5)
        return code


class ImageCritic(nn.Module):
    """Image (B, 3, S, S) -> verdict (B,), without a bound; `features` (B, F) of its last maps. No batch norm: a
    gradient penalty is of single samples.
    """

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        depth = max(int(math.log2(size / 4)), 1)
        layers: list[nn.Module] = []
        channels, side = 3, size
        for i in range(depth):
            wide = min(width * 2**i, 512)
            layers += [nn.Conv2d(channels, wide, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
            channels, side = wide, side // 2
        self.body = nn.Sequential(*layers, nn.Flatten())
        self.last = nn.Linear(channels * side**2, 1)

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.body(x - 0.5)
        return found

    def forward(self, x: Tensor) -> Tensor:
        verdict: Tensor = self.last(self.features(x))
        return verdict[:, 0]


class CodeCritic(nn.Sequential):
    """Code (B, latent) -> verdict (B,), without a bound."""

    def __init__(self, latent: int, width: int = 128) -> None:
        super().__init__(
            nn.Linear(latent, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2),
            nn.Linear(width, 1), nn.Flatten(0),
        )  # fmt: skip

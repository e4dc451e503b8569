"""Networks that several of the paper's comparators share: an encoder into a code, and critics of images and codes."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def noise(like: Tensor, draws: torch.Generator, *shape: int) -> Tensor:
    """Standard normal draws of `shape`, (as `like` without one), made on the CPU, on the device of `like`."""
    return torch.randn(shape or like.shape, generator=draws).to(like.device)


def widths_of(size: int, width: int) -> list[int]:
    """Channels after each halving of a side of `size` pixels down to 4 to 7 cells: they double, up to 512."""
    return [min(width * 2**i, 512) for i in range(max(int(math.log2(size / 4)), 1))]


def cells_of(size: int, widths: list[int]) -> int:
    """Numbers in the last map."""
    return widths[-1] * (size >> len(widths)) ** 2


class ConvCode(nn.Module):
    """Image (B, 3, S, S) in [0, 1] -> code (B, latent): strided convolutions, then one layer."""

    def __init__(self, size: int, latent: int, width: int) -> None:
        super().__init__()
        widths = widths_of(size, width)
        layers: list[nn.Module] = []
        for a, b in zip([3, *widths], widths, strict=False):
            layers += [nn.Conv2d(a, b, 4, stride=2, padding=1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, True)]
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(cells_of(size, widths), latent))

    def forward(self, x: Tensor) -> Tensor:
        code: Tensor = self.body(x - 0.5)
        return code


class ImageCritic(nn.Module):
    """Image (B, 3, S, S) -> verdict (B,), without a bound; `features` (B, F) of its last maps. No batch norm: a
    gradient penalty is of single samples.
    """

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        widths = widths_of(size, width)
        layers: list[nn.Module] = []
        for a, b in zip([3, *widths], widths, strict=False):
            layers += [nn.Conv2d(a, b, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
        self.body = nn.Sequential(*layers, nn.Flatten())
        self.last = nn.Linear(cells_of(size, widths), 1)

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

"""IGD's losses: reconstruction, Gaussian anomaly classifier, interpolation critic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from core.engine.backbones.base import IMAGENET_MEAN, IMAGENET_STD
from core.engine.losses.ms_ssim import dissimilarity_map, ms_ssim
from core.engine.tensors import constant

IMAGENET_RANGE = 4.7579  # of the values of an image after ImageNet normalisation


@dataclass(frozen=True)
class Reconstruction:
    """Reconstruction error l_rec (PMSACL Eq. 11): rho L1 + (1 - rho)(1 - MS-SSIM), relative to the data range."""

    window: int
    levels: tuple[float, ...]
    rho: float = 0.15
    space: str = "imagenet"

    def _pair(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, float]:
        x, y = x.float(), y.float()
        if self.space == "unit":
            return x, y, 1.0
        mean, std = (constant(v, x.device, x.dtype).view(1, 3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
        return (x - mean) / std, (y - mean) / std, IMAGENET_RANGE

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes the error of each image: x, y (B, 3, S, S) in [0, 1] -> (B,)."""
        x, y, span = self._pair(x, y)
        l1 = (x - y).abs().mean((1, 2, 3)) / span
        similarity = ms_ssim(x, y, data_range=span, window=self.window, weights=self.levels)
        return self.rho * l1 + (1 - self.rho) * (1 - similarity)

    def map(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes the error at each pixel, (B, S, S): SSIM residuals of all levels and L1, never negative."""
        x, y, span = self._pair(x, y)
        l1 = (x - y).abs().mean(1) / span
        dissimilarity = dissimilarity_map(x, y, data_range=span, window=self.window, weights=self.levels)
        return self.rho * l1 + (1 - self.rho) * dissimilarity


def gauss(z: Tensor, centre: Tensor, sigma_sq: Tensor) -> Tensor:
    """Computes h_psi (PMSACL Eq. 12): 1 - exp(-|z - c|^2 / sigma_gamma^2), (B, 128) -> (B,) in [0, 1].

    Eq. 12 makes h_psi small for normal images, but Eq. 10 adds 1 - h_psi to the anomaly score as if it were large for
    them. The score here adds h_psi.
    """
    return -torch.expm1(-(z - centre).square().sum(1) / sigma_sq)


def mixed(z: Tensor, share: Tensor) -> Tensor:
    """Mixes each code z with that of the reversed batch: e = a z + (1 - a) flip(z), with a = share (B,)."""
    return share[:, None] * z + (1 - share[:, None]) * z.flip(0)


def generator_loss(verdict: Tensor) -> Tensor:
    """Computes the generator's adversarial interpolation loss: the critic's verdict (B,) on G(e) should be 0."""
    return verdict.square().mean()


def critic_loss(verdict: Tensor, share: Tensor, on_blend: Tensor) -> Tensor:
    """Computes the critic's loss: its verdict should be the share on G(e), (B,), and 0 on fake + gamma (real - fake).

    The latter term stabilises the training.
    """
    return (verdict - share).square().mean() + on_blend.square().mean()


def pushed(c: Tensor, least: float = 0.1) -> Tensor:
    """Moves coordinates of c (D,) within `least` of zero to +-`least`; zero itself goes to +`least`."""
    return torch.where(c.abs() < least, torch.where(c < 0, -least, least), c)


# Estimates over all items, in the memory of one block of them.


def feature_scale(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Computes the mean (F,) of features in blocks (n, F), and 1 / square root of their mean variance, a scalar."""
    count, mean, scatter = 0, torch.zeros(()), torch.zeros(())
    for h in blocks:  # merged after Chan, Golub and LeVeque (1983)
        block = h.double()
        step = block.mean(0) - mean
        scatter = (
            scatter + (block - block.mean(0)).square().sum(0) + step.square() * (count * len(h) / (count + len(h)))
        )
        mean = mean + step * (len(h) / (count + len(h)))
        count += len(h)
    return mean.float(), (1 / (scatter / count).mean().sqrt().clamp(min=1e-6)).float()


def classifier(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Computes mu_gamma (D,) and sigma_gamma^2 (`reference.py`) of codes in blocks (n, D).

    One pass in float64 is enough, as the mean of |z - c|^2 is that of |z|^2 minus 2 c z plus |c|^2.
    """
    means, squares, counts = [], [], []
    for z in blocks:
        block = z.double()
        means.append(block.mean(0))
        squares.append(block.square().sum(1).mean())
        counts.append(len(z))
    weights = torch.tensor(counts, dtype=torch.double, device=means[0].device)
    centre = pushed(((weights[:, None] * torch.stack(means)).sum(0) / weights.sum()).float())
    c = centre.double()
    squared_distances = torch.stack(squares) - 2 * torch.stack(means) @ c + c.square().sum()
    return centre, squared_distances.clamp(min=1).mean().float()

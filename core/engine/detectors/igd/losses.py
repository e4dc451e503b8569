"""IGD's losses: reconstruction, Gaussian anomaly classifier, interpolation critic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from core.engine.backbones.base import IMAGENET_MEAN, IMAGENET_STD
from core.engine.losses.ms_ssim import dissimilarity_map, ms_ssim
from core.engine.tensors import constant

IMAGENET_RANGE = 4.7579  # from the lowest to the highest value an image can take once normalised


@dataclass(frozen=True)
class Reconstruction:
    """Reconstruction error l_rec (PMSACL Eq. 11): rho L1 + (1 - rho)(1 - MS-SSIM), both in parts of the data range."""

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
        alike = ms_ssim(x, y, data_range=span, window=self.window, weights=self.levels)
        return self.rho * l1 + (1 - self.rho) * (1 - alike)

    def map(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes the error at each pixel (B, S, S): levels' SSIM residuals and L1, never negative."""
        x, y, span = self._pair(x, y)
        l1 = (x - y).abs().mean(1) / span
        unlike = dissimilarity_map(x, y, data_range=span, window=self.window, weights=self.levels)
        return self.rho * l1 + (1 - self.rho) * unlike


def gauss(z: Tensor, centre: Tensor, sigma_sq: Tensor) -> Tensor:
    """Computes h_psi (PMSACL Eq. 12): 1 - exp(-|z - c|^2 / sigma_gamma^2), (B, 128) -> (B,) in [0, 1].

    Eq. 12 makes h_psi small on normal images, and Eq. 10 adds 1 - h_psi to the anomaly score as if it were large there;
    the two contradict each other, and the score here adds h_psi.
    """
    return -torch.expm1(-(z - centre).square().sum(1) / sigma_sq)


def mixed(z: Tensor, share: Tensor) -> Tensor:
    """Mixes each code with that at the other end of the batch: e = a z + (1 - a) flip(z). share a: (B,)."""
    return share[:, None] * z + (1 - share[:, None]) * z.flip(0)


def generator_loss(verdict: Tensor) -> Tensor:
    """Computes the generator's loss of the adversarial interpolation: the critic's verdict (B,) on G(e) should be 0."""
    return verdict.square().mean()


def critic_loss(verdict: Tensor, share: Tensor, on_blend: Tensor) -> Tensor:
    """Computes the critic's loss: predict the share in G(e) (B,), and none in fake + gamma (real - fake).

    The latter steadies it.
    """
    return (verdict - share).square().mean() + on_blend.square().mean()


def pushed(c: Tensor, least: float = 0.1) -> Tensor:
    """Moves coordinates of c (D,) within `least` of zero to +-`least`; zero itself goes to +`least`."""
    return torch.where(c.abs() < least, torch.where(c < 0, -least, least), c)


# What IGD estimates over all its items, block by block: memory is that of one block, however many images there are.


def feature_scale(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Computes the mean (F,) of features (n, F), block by block, and 1 / root of the mean variance, a scalar."""
    count, mean, scatter = 0, torch.zeros(()), torch.zeros(())
    for h in blocks:  # merged after Chan, Golub and LeVeque (1983)
        own = h.double()
        step = own.mean(0) - mean
        scatter = scatter + (own - own.mean(0)).square().sum(0) + step.square() * (count * len(h) / (count + len(h)))
        mean = mean + step * (len(h) / (count + len(h)))
        count += len(h)
    return mean.float(), (1 / (scatter / count).mean().sqrt().clamp(min=1e-6)).float()


def classifier(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Computes centre (D,) and variance of codes (n, D), block by block: mu_gamma and sigma_gamma^2 (`reference.py`).

    A block's mean |z - c|^2 is that of |z|^2, less 2 c z, plus |c|^2; so one pass computes both, in float64.
    """
    means, squares, counts = [], [], []
    for z in blocks:
        own = z.double()
        means.append(own.mean(0))
        squares.append(own.square().sum(1).mean())
        counts.append(len(z))
    weights = torch.tensor(counts, dtype=torch.double, device=means[0].device)
    centre = pushed(((weights[:, None] * torch.stack(means)).sum(0) / weights.sum()).float())
    c = centre.double()
    squared_distances = torch.stack(squares) - 2 * torch.stack(means) @ c + c.square().sum()
    return centre, squared_distances.clamp(min=1).mean().float()

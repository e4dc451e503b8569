"""One IGD model: its options (Eqs. 10 to 12), networks and losses, and the centre and variance of its classifier."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones.base import IMAGENET_MEAN, IMAGENET_STD
from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig, Config, option
from core.engine.detectors.igd.items import Items
from core.engine.losses.ms_ssim import dissimilarity_map, fit_levels, ms_ssim
from core.engine.tensors import constant


class IGDModel(nn.Module):
    """IGD model, global (`size` is the side length of images) or local (`size` is the side length of patches)."""

    centre: Tensor
    sigma_sq: Tensor  # sigma_gamma^2, a variance

    def __init__(self, encoder: Encoder, config: IGDConfig, size: int, local: bool) -> None:
        super().__init__()
        self.size, self.local, self.tuned = size, local, config.encoder == "tuned"
        self.encoder = encoder
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2 * config.seed + local)
            self.code = Code(encoder.features, config.latent)
            self.generator = Generator(size, config.latent, config.width)
            self.critic = Critic(size, config.critic_width)
        self.register_buffer("centre", torch.zeros(config.latent))
        self.register_buffer("sigma_sq", torch.ones(()))
        window, levels = (config.local_window, config.local_levels) if local else (config.window, config.levels)
        self.reconstruction = Reconstruction(window, fit_levels(size, window, levels), config.rho, config.space)
        self.encoder.requires_grad_(self.tuned)
        self.to(memory_format=torch.channels_last)  # makes generator and critic 1.3 times as fast on two cores

    def train(self, mode: bool = True) -> IGDModel:
        """Sets training or eval mode. A frozen encoder stays in eval mode, so its batch statistics do not change."""
        super().train(mode)
        if not self.tuned:
            self.encoder.eval()
        return self

    def encode(self, x: Tensor, features: Tensor | None = None) -> Tensor:
        """Encodes images x in [0, 1], `(B, 3, s, s)`, or cached features, `(B, F)`, as codes, `(B, latent)`."""
        h = self.encoder.backbone(x) if features is None else features
        with torch.autocast(h.device.type, enabled=False):
            return self.code(h.float())

    @torch.inference_mode()
    def estimate(self, items: Items, batch: int) -> None:
        """Estimates the classifier's centre c and variance sigma^2 from all training items, and stores them."""
        was_training = self.training
        self.eval()
        centre, sigma_sq = classifier(self.code(h) for h in items.blocks(self.encoder, batch))
        self.centre.copy_(centre)
        self.sigma_sq.copy_(sigma_sq)
        self.train(was_training)

    @torch.no_grad()
    def judge(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the reconstruction error, `(B,)`, h_psi, `(B,)`, and residual map, `(B, s, s)`, of images x."""
        z = self.encode(x)
        back = self.generator(z)
        return self.reconstruction(x, back), gauss(z, self.centre, self.sigma_sq), self.reconstruction.map(x, back)


@dataclass(frozen=True)
class IGDConfig(Config):
    """Options of IGD.

    Defaults are taken from IGD's paper and its released settings. The preset `published` is closer to the released
    code, and `quick` fits in a minute on a CPU.

    encoder: `frozen` as in the released code, where only a linear layer is trained, or `tuned` as the PMSACL paper
        says, where the encoder is fine-tuned.
    local_encoder: Run, or folder of a run, with the local model's encoder. Defaults to the encoder of the global model.
    local_from: Minimum image side in pixels for the local model. At 64, the paper uses only the global model.
    flip: Probability of mirroring an image left to right in training. Features of a frozen encoder are then not cached.
    patches: Number of random patches of each image in a step of the local model, or 0 for all patches.
    local_batch: Number of images per step of the local model, or 0 for `batch`.
    space: Pixel values that are compared: `imagenet` (normalised, range 4.7579) or `unit` ([0, 1], range 1).
    rho: Weight of L1 in the reconstruction error, between 0 and 1.
    xi: Weight of the reconstruction error in the global model's score. The classifier has the weight 1 - xi.
    xi_local: Weight of the reconstruction error in the local model's score.
    local_share: Weight of the local model in score and map, 1 - nu in Eq. 11.
    overlaps: Whether a pixel of the local map is the `mean` or the `sum` of the patches that cover the pixel.
    rescale: Whether features are scaled to mean 0 and standard deviation 1 before the latent layer.
    w_gauss: Weight of the classifier's h_psi in the loss of encoder and generator.
    w_reg: Weight of the critic's verdict in the loss of encoder and generator.
    gamma: Weight of the real image in the second term of the critic's loss.
    reestimate: Number of epochs between two estimates of the classifier's centre and variance.
    sigma: Standard deviation of the heat map's Gaussian blur, in pixels of a 256 x 256 image.
    width: Number of channels of the generator at full resolution.
    critic_width: Number of channels of the critic at full resolution.
    max_steps: Maximum number of steps of each model, or 0 for no limit.
    autocast: Whether networks run in bf16 on devices where bf16 is faster.
    """

    encoder: str = option("frozen", choices=("frozen", "tuned"))
    local_encoder: str | None = None
    latent: int = option(128, low=1)
    width: int = option(32, low=1)
    critic_width: int = option(32, low=1)
    epochs: int = option(256, low=1)
    max_steps: int = option(0, low=0)
    batch: int = option(16, low=2)
    lr: float = option(1e-4, above=0)
    betas: tuple[float, float] = (0.0, 0.9)
    weight_decay: float = 1e-6
    power: float = 0.9
    rho: float = option(0.15, low=0, high=1)
    w_gauss: float = 1.0
    w_reg: float = 0.1
    gamma: float = 0.2
    reestimate: int = option(10, low=1)
    space: str = option("imagenet", choices=("imagenet", "unit"))
    flip: float = option(0.0, low=0, high=1)
    window: int = 11
    levels: tuple[float, ...] = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
    xi: float = option(0.1, low=0, high=1)
    local_from: int = 96
    patch: int = option(32, low=1)
    stride: int = option(16, low=1)
    patches: int = option(0, low=0)
    local_window: int = 3
    local_levels: tuple[float, ...] = (0.0516, 0.3295, 0.3463, 0.2726)
    xi_local: float = option(0.9, low=0, high=1)
    local_share: float = option(0.5, low=0, high=1)
    local_batch: int = option(0, low=0)
    overlaps: str = option("mean", choices=("mean", "sum"))
    rescale: bool = True
    sigma: float = 0.0
    autocast: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.local_batch == 1:
            raise BadConfig("IGD's local_batch must be 0 or at least 2, because an interpolation needs two images")
        if self.window % 2 == 0 or self.local_window % 2 == 0:
            raise BadConfig("IGD's windows must have an odd number of pixels")

    def uses_local(self, size: int) -> bool:
        """Returns whether the local model is used for images with a side of `size` pixels."""
        return self.local_share > 0 and size >= max(self.local_from, self.patch)


PRESETS = {
    "paper": IGDConfig(),
    "published": IGDConfig(flip=0.5, local_batch=2, width=64, overlaps="sum", rescale=False),
    "quick": IGDConfig(width=16, critic_width=16, epochs=80, max_steps=300, lr=1e-3, patches=4),
}


IMAGENET_RANGE = 4.7579  # range of the values of an image after ImageNet normalisation


@dataclass(frozen=True)
class Reconstruction:
    """Reconstruction error l_rec = rho L1 + (1 - rho)(1 - MS-SSIM), relative to the data range (PMSACL Eq. 11)."""

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
        """Computes the error of each image, `(B,)`, from images x and reconstructions y in [0, 1], `(B, 3, S, S)`."""
        x, y, span = self._pair(x, y)
        l1 = (x - y).abs().mean((1, 2, 3)) / span
        similarity = ms_ssim(x, y, data_range=span, window=self.window, weights=self.levels)
        return self.rho * l1 + (1 - self.rho) * (1 - similarity)

    def map(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes the non-negative error at each pixel, `(B, S, S)`, from SSIM residuals of all levels and from L1."""
        x, y, span = self._pair(x, y)
        l1 = (x - y).abs().mean(1) / span
        dissimilarity = dissimilarity_map(x, y, data_range=span, window=self.window, weights=self.levels)
        return self.rho * l1 + (1 - self.rho) * dissimilarity


def gauss(z: Tensor, centre: Tensor, sigma_sq: Tensor) -> Tensor:
    """Computes h_psi = 1 - exp(-|z - c|^2 / sigma_gamma^2), `(B,)`, from codes z, `(B, latent)` (PMSACL Eq. 12).

    Eq. 12 makes h_psi small for normal images, but Eq. 10 adds 1 - h_psi to the anomaly score as if h_psi were large
    for normal images. Here the score contains h_psi.
    """
    return -torch.expm1(-(z - centre).square().sum(1) / sigma_sq)


def mixed(z: Tensor, share: Tensor) -> Tensor:
    """Mixes each code z with its counterpart in the reversed batch: a z + (1 - a) flip(z), where a is `share`."""
    return share[:, None] * z + (1 - share[:, None]) * z.flip(0)


def generator_loss(verdict: Tensor) -> Tensor:
    """Computes the generator's interpolation loss, the mean square of the critic's verdicts on mixed codes' images."""
    return verdict.square().mean()


def critic_loss(verdict: Tensor, share: Tensor, on_blend: Tensor) -> Tensor:
    """Computes the critic's loss, the mean of (verdict - share)^2 plus the mean of on_blend^2. Arguments are `(B,)`.

    `verdict` is the critic's estimate of the mixing share `share` of images of mixed codes. `on_blend` is its verdict
    on fake + gamma (real - fake), a term that stabilises the training.
    """
    return (verdict - share).square().mean() + on_blend.square().mean()


def pushed(c: Tensor, least: float = 0.1) -> Tensor:
    """Sets coordinates of c, `(D,)`, with absolute values below `least` to -`least` if negative, else to `least`."""
    return torch.where(c.abs() < least, torch.where(c < 0, -least, least), c)


def feature_scale(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Computes the mean, `(F,)`, of features in blocks, `(n, F)`, and the scalar 1 / sqrt(mean of variances)."""
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
    """Computes mu_gamma, `(D,)`, and sigma_gamma^2 (see `reference.py`) of codes in blocks, `(n, D)`.

    One pass in float64 is enough, because the mean of |z - c|^2 is mean(|z|^2) - 2 c mean(z) + |c|^2.
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


class Code(nn.Module):
    """Linear layer from backbone features, `(B, F)`, to codes, `(B, latent)`.

    The features are first scaled to mean 0 and mean variance 1 over the normal images. The linear layer could learn
    this scaling, but then the codes of an encoder with small features would not start at the unit scale of the centre.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, features: int, latent: int = 128) -> None:
        super().__init__()
        self.linear = nn.Linear(features, latent)
        self.register_buffer("shift", torch.zeros(features))
        self.register_buffer("scale", torch.ones(()))

    def adapt(self, blocks: Iterable[Tensor]) -> None:
        """Computes shift and scale from the backbone features of the normal images, in blocks, `(n, F)`."""
        shift, scale = feature_scale(blocks)
        self.shift.copy_(shift)
        self.scale.copy_(scale)

    def forward(self, h: Tensor) -> Tensor:
        return self.linear((h - self.shift) * self.scale)


class Generator(nn.Module):
    """Generator g_phi from codes, `(B, latent)`, to images in [0, 1], `(B, 3, S, S)`.

    Nearest up-sampling and convolutions cause no checkerboard artefacts. `width` is the number of channels at full
    resolution, which doubles with each halving of the resolution, up to 512.
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
        if x.shape[2] != self.size:  # unless the side length is a power of two times 4 to 7
            x = F.interpolate(x, (self.size, self.size), mode="bilinear", align_corners=False)
        return torch.sigmoid(x.float())


class Critic(nn.Module):
    """Critic that estimates the mixing share, `(B,)`, of images, `(B, 3, S, S)` (Berthelot et al. 2018)."""

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

"""Detectors that train networks of their own on the normal images: one fit, one checkpoint, one file format for all.

A member brings its networks (`build`), what one step does (a NetTraining) and what an image looks like to it (`judge`).
"""

from __future__ import annotations

import abc
import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import Self

from core.engine.backbones.config import STRIDES
from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import blur, counted
from core.engine.config import BadConfig, Config
from core.engine.detectors.base import PARTIAL, Detector, FitContext, Prediction, Tensors, at_least_one
from core.engine.registry import DETECTORS
from core.engine.tensors import normal, pick_device, to_batch
from core.engine.training import loop
from core.engine.training.base import ORDER, STEP, Training, fingerprint, generator

STRIDE = 2  # maps of single pixels are kept at half the image's resolution


@dataclass(frozen=True)
class NetConfig(Config):
    """steps: of training. batch: images a step. lr: learning rate. width: channels at full resolution, doubling as the
    maps shrink. latent: size of the code. sigma: blur of the heat map in pixels at 256. seed: of weights and draws.
    """

    steps: int = 20_000
    batch: int = 32
    lr: float = 1e-3
    width: int = 32
    latent: int = 128
    sigma: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.width, self.latent) < 1 or self.batch < 2:
            raise BadConfig("steps, width and latent must be at least 1, and batch at least 2")
        if self.lr <= 0 or self.sigma < 0 or self.seed < 0:
            raise BadConfig("lr must be above 0, sigma and seed 0 or more")


class NetTraining(Training, abc.ABC):
    """Training over random batches, in a new order each epoch. `net` holds all networks of the detector."""

    def __init__(self, net: Any, images: np.ndarray, config: Any, device: torch.device, title: str) -> None:
        self.net, self.images, self.config, self.device = net, images, config, device
        self.title = title  # type: ignore[misc]  # one class serves one detector
        self.remedy = f"a learning rate below {config.lr:g}"
        self.steps = config.steps
        self.networks = {"net": net}
        self.optimisers = self.build_optimisers()

    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Builds optimisers by their names in a checkpoint; Adam over all networks unless a member differs."""
        return {"optimiser": torch.optim.Adam(self.net.parameters(), self.config.lr)}

    @abc.abstractmethod
    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        """Takes one step on x (B, 3, S, S) in [0, 1], with every draw from `draws` -> numbers, `loss` among them."""

    def rows(self) -> np.ndarray:
        """Returns the indices of this step's images, ascending."""
        size = min(self.config.batch, len(self.images))
        epoch, place = divmod(self.step, len(self.images) // size)
        order = torch.randperm(len(self.images), generator=generator(self.config.seed, ORDER, epoch))
        return np.sort(order[place * size : (place + 1) * size].numpy())

    def advance(self) -> dict[str, Any]:
        draws = generator(self.config.seed, STEP, self.step)
        x = to_batch(self.images[self.rows()], self.device)
        self.net.train()
        numbers = self.learn(x, draws)
        self.step += 1
        values = torch.stack([value.detach().float() for value in numbers.values()]).tolist()  # the step's one wait
        return dict(zip(numbers, values, strict=True))


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """Takes one optimiser step down `loss`."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()


class NetDetector(Detector):
    """Base of detectors that train networks of their own. `normals`: what `settle` takes from the normal images."""

    Training: ClassVar[type[NetTraining]]
    net: Any

    def __init__(self, net: nn.Module, config: Any, size: int, normals: dict[str, Tensor] | None = None) -> None:
        super().__init__()
        self.net, self.config, self.size, self.normals = net.eval(), config, size, Tensors(normals or {})

    @property
    def device(self) -> torch.device:
        return next(iter(self.net.parameters())).device

    @classmethod
    @abc.abstractmethod
    def build(cls, encoder: Encoder, config: Any, size: int) -> nn.Module:
        """Builds all networks, for images of side `size`; `encoder` is a copy, to be used or left."""

    def settle(self, images: np.ndarray) -> dict[str, Tensor]:
        """Returns what scoring needs of the normal images uint8 (N, S, S, 3) beside the networks, such as a memory."""
        return {}

    @abc.abstractmethod
    def judge(self, x: Tensor) -> dict[str, Tensor]:
        """Judges x (B, 3, S, S) in [0, 1] -> `maps` (B, h, w), not smoothed, and what scores need, each (B, ...)."""

    @classmethod
    def fit(cls, encoder: Encoder, images: np.ndarray, config: Any, context: FitContext = FitContext()) -> Self:
        """Trains the networks on images uint8 (N, S, S, 3), N of 2 or more.

        With a folder the training is kept in its `partial` folder, and a later call with the same arguments goes on
        from there.
        """
        if len(images) < 2 or images.shape[1] < 32:
            raise ValueError(
                f"a fit takes at least 2 images of at least 32 pixels, not {len(images)} of {images.shape[1]}"
            )
        device, size = pick_device(str(context.device)), int(images.shape[1])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            net = cls.build(copy.deepcopy(encoder).cpu(), config, size)
        source = fingerprint(images, net.state_dict())
        training = cls.Training(net.to(device), images, config, device, DETECTORS.title(cls.name))
        folder = None if context.folder is None else Path(context.folder) / PARTIAL
        identity = {"config": config.to_dict(), "fitted_on": source}
        checkpoints = loop.kept(training, folder, identity, context.report, context.should_stop)
        if checkpoints is not None:
            checkpoints.save(training)
        learnt = cls(net, config, size)
        learnt.normals = Tensors(learnt.settle(images))
        return learnt

    @torch.no_grad()
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts smoothed maps of images uint8 (N, S, S, 3) of the size it was fitted at."""
        self.demand_size(images)
        shown = at_least_one(images)
        parts = []
        for start in range(0, len(shown), batch):
            judged = self.judge(to_batch(shown[start : start + batch], self.device))
            maps = judged.pop("maps").float()
            if maps.shape[-1] == self.size:
                maps = F.avg_pool2d(maps[:, None], STRIDE)[:, 0]
            smooth = blur(maps, self.config.sigma * maps.shape[-1] / 256).cpu().numpy()
            parts.append(Prediction(smooth, {name: value.float().cpu().numpy() for name, value in judged.items()}))
        return Prediction.joined(parts, len(images))

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Scores by the map's mean, of the region of interest where that is given: (N,) float32."""
        return mean_inside(prediction.maps, roi)

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        normals = {n.removeprefix("normals."): v for n, v in tensors.items() if n.startswith("normals.")}
        return cls(cls.build(within.get("net.encoder") or Encoder(), config, size), config, size, normals).fill(tensors)


def mean_inside(maps: np.ndarray, roi: np.ndarray | None) -> np.ndarray:
    """Averages maps (N, h, w) inside roi uint8 (N, S, S) -> (N,) float32; whole maps where roi is None or empty."""
    if roi is None:
        return maps.mean((1, 2)).astype(np.float32)
    inside = counted(maps, roi)
    return ((maps * inside).sum((1, 2)) / inside.sum((1, 2))).astype(np.float32)


# Networks that several of the paper's comparators share: one on the given encoder, an encoder into a code, and critics
# of images and codes.


class EncoderNet(nn.Module):
    """Base of networks that train the given encoder and read its coarsest maps."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(True)

    def maps(self, x: Tensor) -> Tensor:
        """Computes the encoder's coarsest maps: (B, 3, S, S) -> (B, F, h, w)."""
        return self.encoder.maps(x, STRIDES[-1:])[STRIDES[-1]]


def noise(like: Tensor, draws: torch.Generator, *shape: int) -> Tensor:
    """Draws standard normal numbers of `shape`, by default that of `like`, on the device of `like`."""
    return normal(shape or like.shape, draws, like.device)


def widths_of(size: int, width: int) -> list[int]:
    """Lists the channels after each halving of a side of `size` pixels down to 4 to 7 cells: they double, up to 512."""
    return [min(width * 2**i, 512) for i in range(max(int(math.log2(size / 4)), 1))]


def cells_of(size: int, widths: list[int]) -> int:
    """Counts the values of the last map, of which `widths` are the channels."""
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
        features: Tensor = self.body(x - 0.5)
        return features

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


# The gradient penalty of WGAN-GP (Gulrajani et al. 2017, "Improved Training of Wasserstein GANs", Eq. 3).


def gradient_penalty(critic: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, share: Tensor) -> Tensor:
    """Computes the gradient penalty, a scalar.

    Mean over samples of (|| gradient of the critic at share * real + (1 - share) * fake ||_2 - 1)^2. critic: (B, ...)
    -> (B,); real, fake (B, ...); share (B,) in [0, 1], uniform draws. Neither input gets a gradient.
    """
    share = share.view(-1, *[1] * (real.ndim - 1))
    between = (share * real.detach() + (1 - share) * fake.detach()).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (slope.flatten(1).norm(dim=1) - 1).square().mean()

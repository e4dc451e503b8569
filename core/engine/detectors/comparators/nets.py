"""Base classes of detectors that train networks on normal images, with a shared fit and checkpoint format.

Each detector defines its networks (`Net`, or `build` if they use the encoder), its training step (a `NetTraining`) and
how it scores an image (`judge`).
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
from core.engine.calibration.heatmap import blur, mean_inside
from core.engine.config import Config, option
from core.engine.detectors.base import PARTIAL, FitContext, ImageDetector, Tensors
from core.engine.registry import DETECTORS
from core.engine.tensors import normal, pick_device, to_batch
from core.engine.training import loop
from core.engine.training.base import ORDER, STEP, Training, fingerprint, generator

STRIDE = 2  # factor by which maps at the image's resolution are reduced


@dataclass(frozen=True)
class NetConfig(Config):
    """Options of the comparators that train networks on normal images.

    steps: Number of training steps.
    batch: Number of images per step.
    lr: Learning rate.
    width: Number of channels of the finest maps, doubled at each halving up to 512 (unused by CutPaste and PANDA).
    latent: Number of elements of a code.
    sigma: Standard deviation of the heat map's Gaussian blur, in pixels of a 256 x 256 image.
    seed: Seed of the initial weights and the batches.
    """

    steps: int = option(20_000, low=1)
    batch: int = option(32, low=2)
    lr: float = option(1e-3, above=0)
    width: int = option(32, low=1)
    latent: int = option(128, low=1)
    sigma: float = option(2.0, low=0)
    seed: int = option(0, low=0)


class NetTraining(Training, abc.ABC):
    """Training run on random batches, reshuffled in each epoch. `net` contains all networks of the detector."""

    def __init__(self, net: Any, images: np.ndarray, config: Any, device: torch.device, title: str) -> None:
        self.net, self.images, self.config, self.device = net, images, config, device
        self.title = title  # type: ignore[misc]  # each class serves a single detector
        self.remedy = f"a learning rate below {config.lr:g}"
        self.steps = config.steps
        self.networks = {"net": net}
        self.optimisers = self.build_optimisers()

    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Creates the optimisers, by their names in checkpoints. By default, a single Adam trains all networks."""
        return {"optimiser": torch.optim.Adam(self.net.parameters(), self.config.lr)}

    @abc.abstractmethod
    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        """Trains for one step on images x, with random numbers from `draws`. Returns `loss` and other values to log."""

    def rows(self) -> np.ndarray:
        """Returns the indices of this step's images in ascending order."""
        size = min(self.config.batch, len(self.images))
        epoch, batch_number = divmod(self.step, len(self.images) // size)
        order = torch.randperm(len(self.images), generator=generator(self.config.seed, ORDER, epoch))
        return np.sort(order[batch_number * size : (batch_number + 1) * size].numpy())

    def advance(self) -> dict[str, Any]:
        draws = generator(self.config.seed, STEP, self.step)
        x = to_batch(self.images[self.rows()], self.device)
        self.net.train()
        numbers = self.learn(x, draws)
        self.step += 1
        values = torch.stack(
            [value.detach().float() for value in numbers.values()]
        ).tolist()  # a single transfer per step
        return dict(zip(numbers, values, strict=True))


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """Takes one step with `optimiser` to reduce `loss`."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()


class NetDetector(ImageDetector):
    """Base class of detectors that train networks. `normals` holds the tensors that `settle` computes."""

    Training: ClassVar[type[NetTraining]]
    Net: ClassVar[type[Any]]  # class of all networks of a detector without encoder
    net: Any

    def __init__(self, net: nn.Module, config: Any, size: int, normals: dict[str, Tensor] | None = None) -> None:
        super().__init__()
        self.net, self.config, self.size, self.normals = net.eval(), config, size, Tensors(normals or {})

    @classmethod
    def build(cls, encoder: Encoder, config: Any, size: int) -> nn.Module:
        """Creates all networks for images with a side of `size` pixels. The networks may use and train `encoder`."""
        return cls.Net(config, size)

    def settle(self, images: np.ndarray) -> dict[str, Tensor]:
        """Computes the tensors that scoring needs, such as a memory, from normal images, `uint8 (N, S, S, 3)`."""
        return {}

    @abc.abstractmethod
    def judge(self, x: Tensor) -> dict[str, Tensor]:
        """Computes unsmoothed `maps`, `(B, h, w)`, and values for the score, `(B, ...)`, by name, for images x."""

    @classmethod
    def fit(cls, encoder: Encoder, images: np.ndarray, config: Any, context: FitContext = FitContext()) -> Self:
        """Trains the networks on normal images, `uint8 (N, S, S, 3)`. Raises ValueError unless N >= 2 and S >= 32.

        If the context has a folder, the training run is saved in its subfolder `partial`, and a later call with the
        same arguments resumes it.
        """
        if len(images) < 2 or images.shape[1] < 32:
            raise ValueError(
                f"a fit needs at least 2 images of at least 32 pixels, not {len(images)} of {images.shape[1]}"
            )
        device, size = pick_device(str(context.device)), int(images.shape[1])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            net = cls.build(copy.deepcopy(encoder).cpu(), config, size)
        source = fingerprint(images, net.state_dict())
        training = cls.Training(net.to(device), images, config, device, DETECTORS.title(cls.name))
        folder = None if context.folder is None else Path(context.folder) / PARTIAL
        identity = {"config": config.to_dict(), "fitted_on": source}
        checkpoints = loop.run_resumable(training, folder, identity, context.report, context.should_stop)
        if checkpoints is not None:
            checkpoints.save(training)
        detector = cls(net, config, size)
        detector.normals = Tensors(detector.settle(images))
        return detector

    def read(self, x: Tensor) -> dict[str, Tensor]:
        values = {name: value.float() for name, value in self.judge(x).items()}
        maps = values["maps"]
        if maps.shape[-1] == self.size:
            maps = F.avg_pool2d(maps[:, None], STRIDE)[:, 0]
        return values | {"maps": blur(maps, self.config.sigma * maps.shape[-1] / 256)}

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Computes the mean of each map, `(B,)`, over the region of interest if given."""
        return mean_inside(values["maps"], roi)

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        normals = {n.removeprefix("normals."): v for n, v in tensors.items() if n.startswith("normals.")}
        return cls(cls.build(within.get("net.encoder") or Encoder(), config, size), config, size, normals).fill(tensors)


class EncoderNet(nn.Module):
    """Base class of networks that train the given encoder and use its coarsest maps."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(True)

    def maps(self, x: Tensor) -> Tensor:
        """Computes the encoder's coarsest maps, `(B, F, h, w)`, of images, `(B, 3, S, S)`."""
        return self.encoder.maps(x, STRIDES[-1:])[STRIDES[-1]]


def noise(like: Tensor, draws: torch.Generator, *shape: int) -> Tensor:
    """Draws standard normal numbers of `shape` (by default the shape of `like`) on the device of `like`."""
    return normal(shape or like.shape, draws, like.device)


def widths_of(size: int, width: int) -> list[int]:
    """Returns the channels after each halving of `size`, down to 4 to 7 cells: `width`, then doubled, up to 512."""
    return [min(width * 2**i, 512) for i in range(max(int(math.log2(size / 4)), 1))]


def cells_of(size: int, widths: list[int]) -> int:
    """Returns the number of values in the last map of a network with channels `widths` on images of `size` pixels."""
    return widths[-1] * (size >> len(widths)) ** 2


class ConvCode(nn.Module):
    """Encoder from images, `(B, 3, S, S)`, to codes, `(B, latent)`: strided convolutions and one linear layer."""

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
    """Critic of images, `(B, 3, S, S)`, with unbounded verdicts, `(B,)`. `features` returns the flattened last maps.

    There is no batch norm, because a gradient penalty is defined for single samples.
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
    """Critic of codes, `(B, latent)`, with unbounded verdicts, `(B,)`."""

    def __init__(self, latent: int, width: int = 128) -> None:
        super().__init__(
            nn.Linear(latent, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2),
            nn.Linear(width, 1), nn.Flatten(0),
        )  # fmt: skip


def gradient_penalty(critic: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, share: Tensor) -> Tensor:
    """Computes the gradient penalty of WGAN-GP, a scalar (Gulrajani et al. 2017, Eq. 3).

    The penalty is the mean of (|| g ||_2 - 1)^2, where g is the gradient of the critic at share * real + (1 - share) *
    fake. `real` and `fake`, `(B, ...)`, receive no gradient. `share`, `(B,)`, holds uniform random numbers in [0, 1].
    """
    share = share.view(-1, *[1] * (real.ndim - 1))
    between = (share * real.detach() + (1 - share) * fake.detach()).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (slope.flatten(1).norm(dim=1) - 1).square().mean()

"""CutPaste (Li et al. 2021, "CutPaste: Self-Supervised Learning for Anomaly Detection and Localization").

A network learns to distinguish an image, the image after CutPaste, and the image after CutPaste-Scar (3-way, Sec. 2.3).
A Gaussian is then fitted to the features of normal images. An image's score is its Mahalanobis distance, which ranks
images like the negative log density. The map is the Grad-CAM of this distance (Sec. 4.2 of that paper shows it for
whole images). We chose one hidden layer in the head, and a shrunk covariance, because few images give a singular one.

As in that paper, colour jitter is by default applied only to the pasted piece (option `whole_jitter`), and features are
not normalised (option `unit`). The preset `published` enables both options, as public implementations do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.augment.colour import apply_colour, colour_map, grey_images, jitter_factors
from core.engine.backbones.encoder import Encoder
from core.engine.detectors.comparators.nets import EncoderNet, NetConfig, NetDetector, NetTraining, descend
from core.engine.detectors.mahalanobis import Normal, Scatter
from core.engine.registry import DETECTORS
from core.engine.tensors import to_batch, to_device
from core.engine.training.schedule import set_rate, warm_cosine

CLASSES = 3  # image, image after CutPaste, image after CutPaste-Scar


@dataclass(frozen=True)
class CutPasteConfig(NetConfig):
    """Options of CutPaste.

    momentum: Momentum of SGD.
    weight_decay: Weight decay of SGD. The learning rate follows a cosine schedule.
    latent: Width of the head's hidden layer.
    whole_jitter: Whether whole images are colour-jittered as well, as in public implementations.
    unit: Whether features are normalised to length 1, as in public implementations.
    """

    steps: int = 65_536
    lr: float = 0.03
    momentum: float = 0.9
    weight_decay: float = 3e-5
    latent: int = 512
    sigma: float = 4.0
    whole_jitter: bool = False
    unit: bool = False


class CutPasteNet(EncoderNet):
    def __init__(self, encoder: Encoder, hidden: int) -> None:
        super().__init__(encoder)
        self.encoder.head.requires_grad_(False)  # the projection is not used
        layers = [nn.Linear(encoder.features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True)]
        self.head = nn.Sequential(*layers, nn.Linear(hidden, CLASSES))


class CutPasteTraining(NetTraining):
    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        c, learnt = self.config, [p for p in self.net.parameters() if p.requires_grad]
        return {"optimiser": torch.optim.SGD(learnt, c.lr, c.momentum, weight_decay=c.weight_decay)}

    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        inputs = torch.cat([x, cut_paste(x, draws), cut_paste_scar(x, draws)])
        inputs = jittered(inputs, draws) if self.config.whole_jitter else inputs
        labels = torch.arange(CLASSES, device=x.device).repeat_interleave(len(x))
        logits = self.net.head(self.net.maps(inputs).mean((2, 3)))
        loss = F.cross_entropy(logits, labels)
        set_rate(self.optimisers["optimiser"], self.config.lr * warm_cosine(self.step, self.steps, 0.02, 0.0))
        descend(self.optimisers["optimiser"], loss)
        return {"loss": loss, "accuracy": (logits.argmax(1) == labels).float().mean()}


@DETECTORS.register("cutpaste", title="CutPaste", section="Table detection; Li et al. 2021")
class CutPaste(NetDetector):
    """CutPaste detector. The score is the Mahalanobis distance of an image's features from normal features."""

    name = "cutpaste"
    Config = CutPasteConfig
    Training = CutPasteTraining
    presets = {
        "paper": CutPasteConfig(),
        "published": CutPasteConfig(whole_jitter=True, unit=True),
        "quick": CutPasteConfig(steps=200, batch=16, lr=0.01, latent=128),
    }

    @classmethod
    def build(cls, encoder: Encoder, config: CutPasteConfig, size: int) -> nn.Module:
        return CutPasteNet(encoder, config.latent)

    @torch.no_grad()
    def settle(self, images: np.ndarray) -> dict[str, Tensor]:
        """Computes the `mean`, `(F,)`, and a `whitening` matrix, `(F, F)`, of the features of normal images."""
        scatter = Scatter()
        for start in range(0, len(images), self.config.batch):
            x = to_batch(images[start : start + self.config.batch], self.device)
            scatter.add(self._features(self.net.maps(x)))
        normal = scatter.normal()
        return {"mean": normal.mean, "whitening": normal.whitening}

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        maps = self.net.maps(x)
        normal = Normal(self.normals["mean"], self.normals["whitening"])
        features = self._features(maps)
        length = maps.mean((2, 3)).norm(dim=1) if self.config.unit else None
        return {"maps": grad_cam(maps, features, normal, length), "distance": normal.distance(features)}

    def _features(self, maps: Tensor) -> Tensor:
        """Pools maps, `(B, F, h, w)`, to the features, `(B, F)`, whose density is estimated."""
        features = maps.mean((2, 3))
        return F.normalize(features, dim=1) if self.config.unit else features

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Returns the Mahalanobis distance of each whole image, `(B,)`, regardless of the region of interest."""
        return values["distance"]


def grad_cam(maps: Tensor, features: Tensor, normal: Normal, length: Tensor | None = None) -> Tensor:
    """Computes the Grad-CAM map of half the squared distance: the ReLU of the sum of maps weighted by mean gradients.

    The gradient with respect to the features is the precision times the difference between the features and their mean.
    Each of the h x w positions receives an equal part of the gradient.

    Args:
        maps: Feature maps, `(B, F, h, w)`.
        features: Mean of the maps, `(B, F)`, or this mean divided by `length`.
        normal: Distribution of normal features.
        length: Norms by which the features were divided, `(B,)`, so that only their direction counts, or None.
    """
    slope = (features - normal.mean) @ normal.whitening.T @ normal.whitening
    if length is not None:
        slope = (slope - (slope * features).sum(1, keepdim=True) * features) / length[:, None]
    weights = slope / (maps.shape[2] * maps.shape[3])
    return torch.einsum("bf,bfhw->bhw", weights, maps).relu()


# Ranges for the pieces of CutPaste and CutPaste-Scar (Li et al. 2021, Sec. 2.2).
AREA = (0.02, 0.15)  # fraction of the image's area
ASPECT = (0.3, 1 / 0.3)
SCAR_WIDTH, SCAR_LENGTH = (2, 16), (10, 25)  # in pixels for images of 256 pixels
SCAR_ANGLE = 45.0  # maximum rotation in degrees, in either direction
JITTER = (0.1, 0.1, 0.1, 0.1)  # maximum change of brightness, contrast, saturation and hue of the piece


def cut_paste(x: Tensor, draws: torch.Generator) -> Tensor:
    """Copies a rectangle of each image x in [0, 1], `(B, 3, S, S)`, jitters its colours and pastes it elsewhere."""
    side = x.shape[-1]
    area, aspect, *positions = torch.rand(6, len(x), generator=draws)
    area = (AREA[0] + area * (AREA[1] - AREA[0])) * side**2
    low, high = math.log(ASPECT[0]), math.log(ASPECT[1])
    ratio = torch.exp(low + aspect * (high - low))
    h = (area / ratio).sqrt().round().clamp(1, side - 1).long().tolist()
    w = (area * ratio).sqrt().round().clamp(1, side - 1).long().tolist()
    coloured, out = jittered(x, draws), x.clone()
    for i in range(len(x)):
        (y0, y1), (x0, x1) = (
            [int(float(p[i]) * (side - size[i] + 1)) for p in pair]
            for pair, size in ((positions[:2], h), (positions[2:], w))
        )
        out[i, :, y1 : y1 + h[i], x1 : x1 + w[i]] = coloured[i, :, y0 : y0 + h[i], x0 : x0 + w[i]]
    return out


def cut_paste_scar(x: Tensor, draws: torch.Generator) -> Tensor:
    """Copies a thin rectangle of each image, `(B, 3, S, S)`, jitters colours, rotates it and pastes it elsewhere."""
    side = x.shape[-1]
    width, length, angle, fx, fy, tx, ty = to_device(torch.rand(7, len(x), generator=draws), x.device)
    scale = side / 256
    half_w = (SCAR_WIDTH[0] + width * (SCAR_WIDTH[1] - SCAR_WIDTH[0])).mul(scale).clamp(min=1) / 2
    half_l = (SCAR_LENGTH[0] + length * (SCAR_LENGTH[1] - SCAR_LENGTH[0])).mul(scale).clamp(min=2) / 2
    turn = (2 * angle - 1) * math.radians(SCAR_ANGLE)
    at = torch.arange(side, device=x.device) + 0.5

    def middle(u: Tensor) -> Tensor:  # a centre at which the piece, at any angle, does not leave the image
        reach = (half_w**2 + half_l**2).sqrt()
        return (reach + u * (side - 2 * reach).clamp(min=0))[:, None, None]

    down, right = at[None, :, None] - middle(ty), at[None, None, :] - middle(tx)  # from the centre of the pasted piece
    cos, sin = turn.cos()[:, None, None], turn.sin()[:, None, None]
    along, across = cos * right + sin * down, cos * down - sin * right  # along the piece's axes
    inside = (along.abs() <= half_l[:, None, None]) & (across.abs() <= half_w[:, None, None])
    grid = torch.stack([along + middle(fx), across + middle(fy)], 3) * (2 / side) - 1
    piece = F.grid_sample(jittered(x, draws), grid, padding_mode="border", align_corners=False)
    return torch.where(inside[:, None], piece, x)


def jittered(x: Tensor, draws: torch.Generator) -> Tensor:
    """Applies random colour jitter to images x in [0, 1], `(B, 3, S, S)`. Grey images stay grey."""
    factors = torch.from_numpy(jitter_factors(torch.rand(len(x), 4, generator=draws).numpy(), JITTER))
    torch.rand(len(x), 4, generator=draws)  # not used, but keeps later random numbers the same for each seed
    return apply_colour(x, *colour_map(to_device(factors, x.device), grey_images(x)), x.mean((2, 3))).clamp(0, 1)

"""SuperSimpleNet (Rolih et al. 2024, "SuperSimpleNet: Unifying Unsupervised and Supervised Learning for Fast and
Reliable Surface Defect Detection"; 2025, "No Label Left Behind").

The encoder's maps of two middle strides, frozen, are laid side by side on a grid twice as fine as the finer one's,
averaged over 3 x 3 cells and adapted by one layer. Gaussian noise is added to half of them where Perlin noise is high.
A segmentation head tells where, a classification head whether; the map's loss is focal and a truncated L1, the score's
is focal. With marks, half of each batch are marked images, whose lesions are the truth, and noise comes beside these.

Ours: features are first brought to mean 0 and deviation 1 by normal images, and the noise has that deviation, 1
(published: 0.015, of the features of one wide network as they are; 0.1 and 0.3 were worse here on most sets, which is
known from their test images alone). The score is the classification head's, of the
whole image always; the map is the logit that the published one takes the sigmoid of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones.base import in_order
from core.engine.backbones.config import STRIDES
from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig
from core.engine.detectors.base import Prediction
from core.engine.detectors.comparators.nets import NetConfig, NetDetector, NetTraining, noise
from core.engine.registry import DETECTORS
from core.engine.rows import rows_of
from core.engine.tensors import to_batch
from core.engine.training.schedule import set_rate

STANDARD = 64  # normal images by which features are standardised, at most
FLAT = 0.01  # of the features' mean deviation: one that hardly varies is not enlarged more
GAMMA = 4.0  # of the focal loss
MARGIN = 0.5  # of the truncated L1
DROPS, DROP = (0.8, 0.9), 0.4  # shares of the steps at which the learning rates fall, and to what part


@dataclass(frozen=True)
class SuperSimpleNetConfig(NetConfig):
    """strides: of the maps. finer: how much finer the grid is than the finer map's. hidden, convolved: channels within
    the two heads. noise: its deviation, as a part of the features'. threshold: above which Perlin noise, from -1 to 1,
    is a place with noise; chance: that an image has any. lr: of the adapter; head_lr: of the heads. clip: of the
    gradient's norm, 0 for none; apart: whether the classification head has no part in what the map learns (both are
    so where nothing is marked). width and latent have no part in it.
    """

    steps: int = 2400
    lr: float = 1e-4
    head_lr: float = 2e-4
    weight_decay: float = 1e-5
    strides: tuple[int, ...] = (8, 16)
    finer: int = 2
    hidden: int = 1024
    convolved: int = 128
    noise: float = 1.0
    threshold: float = 0.2
    chance: float = 0.5
    clip: float = 1.0
    apart: bool = True
    sigma: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not in_order(self.strides):
            raise BadConfig(f"the strides are some of {', '.join(map(str, STRIDES))}, in order; not {self.strides}")
        if min(self.finer, self.hidden, self.convolved) < 1 or min(self.head_lr, self.noise) <= 0:
            raise BadConfig("finer, hidden and convolved are at least 1, head_lr and noise above 0")
        if self.weight_decay < 0 or self.clip < 0 or not -1 <= self.threshold < 1 or not 0 < self.chance <= 1:
            raise BadConfig("weight_decay and clip are 0 or more, threshold from -1 to below 1, chance above 0 to 1")


class SuperSimpleNetNet(nn.Module):
    """The frozen encoder, always in eval mode, the adapter and both heads."""

    middle: Tensor
    deviation: Tensor

    def __init__(self, encoder: Encoder, config: SuperSimpleNetConfig) -> None:
        super().__init__()
        self.encoder, self.strides, self.finer = encoder.eval().requires_grad_(False), config.strides, config.finer
        self.apart = config.apart
        width, hidden = sum(encoder.widths[s] for s in config.strides), config.hidden
        self.register_buffer("middle", torch.zeros(width, 1, 1))
        self.register_buffer("deviation", torch.ones(width, 1, 1))
        self.adapter = nn.Conv2d(width, width, 1)
        self.map_head = nn.Sequential(
            nn.Conv2d(width, hidden, 1), nn.BatchNorm2d(hidden), nn.LeakyReLU(0.2), nn.Conv2d(hidden, 1, 1, bias=False)
        )
        self.convolution = nn.Sequential(
            nn.Conv2d(width + 1, config.convolved, 5, padding="same"), nn.BatchNorm2d(config.convolved), nn.ReLU()
        )
        self.verdict = nn.Linear(2 * config.convolved + 2, 1)
        for module in (self.adapter, *self.map_head, *self.convolution, self.verdict):
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.xavier_normal_(module.weight)

    def train(self, mode: bool = True) -> SuperSimpleNetNet:
        super().train(mode)
        self.encoder.eval()
        return self

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """Computes standardised features of x (B, 3, S, S) in [0, 1] -> (B, C, h, w)."""
        maps = self.encoder.maps(x, self.strides)
        side = [n * self.finer for n in maps[self.strides[0]].shape[2:]]
        every = [F.interpolate(maps[s].float(), side, mode="bilinear", align_corners=False) for s in self.strides]
        return (F.avg_pool2d(torch.cat(every, 1), 3, 1, 1) - self.middle) / self.deviation

    def heads(self, adapted: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Applies both heads, the map's to `adapted` and the verdict's to `features`.

        (B, C, h, w) each -> logits (B, h, w) and (B,).
        """
        logits = self.map_head(adapted)
        told = logits.detach() if self.apart else logits
        convolved = self.convolution(torch.cat([features, told], 1))
        pooled = [cells for maps in (convolved, told) for cells in (maps.amax((2, 3)), maps.mean((2, 3)))]
        return logits[:, 0], self.verdict(torch.cat(pooled, 1))[:, 0]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(x)
        return self.heads(self.adapter(features), features)


class SuperSimpleNetTraining(NetTraining):
    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        c, net = self.config, self.net
        net.apart = c.apart and self.marks is None
        with torch.no_grad():
            rows = np.linspace(0, len(self.images) - 1, min(STANDARD, len(self.images))).round().astype(int)
            plain = [net.features(to_batch(rows_of(self.images, rows[i : i + c.batch]), self.device))
                     for i in range(0, len(rows), c.batch)]  # fmt: skip
            cells = torch.cat([f.transpose(0, 1).flatten(1) for f in plain], 1)
            net.middle.copy_(cells.mean(1)[:, None, None])
            deviation = cells.std(1)
            least = FLAT * deviation.mean().clamp(min=1e-6)
            net.deviation.copy_(deviation.clamp(min=least)[:, None, None])
        heads = [*net.map_head.parameters(), *net.convolution.parameters(), *net.verdict.parameters()]
        self.learnt = [*net.adapter.parameters(), *heads]
        groups = [{"params": net.adapter.parameters(), "weight_decay": 0.01},
                  {"params": heads, "scale": c.head_lr / c.lr, "weight_decay": c.weight_decay}]  # fmt: skip
        return {"optimiser": torch.optim.AdamW(groups, c.lr)}

    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        c, net = self.config, self.net
        truth, known = torch.zeros(len(x), *x.shape[2:], device=x.device), torch.ones(len(x), *x.shape[2:])
        if self.marks is not None:
            count = len(x) // 2
            rows = torch.randint(len(self.marks.images), (count,), generator=draws).numpy()
            x = torch.cat([to_batch(rows_of(self.marks.images, rows), self.device), x[count:]])
            truth[:count] = torch.from_numpy(rows_of(self.marks.masks, rows) > 0).to(truth)
            if self.marks.ignored is not None:
                known[:count] = torch.from_numpy(rows_of(self.marks.ignored, rows) == 0).float()
        features = net.features(x)
        side = features.shape[2:]
        # Both as they are and, in the second half, drawn anew, as the published batch has each image twice.
        features = torch.cat([features, features])
        mask, use = (F.interpolate(m.to(x)[:, None], side, mode="area")[:, 0] >= 0.5 for m in (truth, known))
        mask, use = torch.cat([mask, mask]), torch.cat([use, use])
        places = perlin(len(mask), int(side[0]), draws) > c.threshold
        places &= (torch.rand(len(mask), generator=draws) < c.chance)[:, None, None]
        places = places.to(x.device) & ~mask & use
        added = c.noise * noise(features, draws) * places[:, None]
        logits, verdicts = net.heads(net.adapter(features) + added, features + added)
        spoilt = mask | places
        on_map = focal(logits, spoilt.float(), use) + truncated(logits, spoilt, use)
        on_image = focal(verdicts, spoilt.flatten(1).any(1).float(), torch.ones_like(verdicts, dtype=torch.bool))
        loss = on_map + on_image
        optimiser = self.optimisers["optimiser"]
        set_rate(optimiser, c.lr * DROP ** sum(self.step >= share * self.steps for share in DROPS))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if c.clip and self.marks is None:
            nn.utils.clip_grad_norm_(self.learnt, c.clip)
        optimiser.step()
        return {"loss": loss, "map": on_map, "image": on_image}


def focal(logits: Tensor, truth: Tensor, use: Tensor) -> Tensor:
    """Computes the focal loss, a scalar: the mean of (1 - p)^GAMMA times the cross-entropy over what `use` marks.

    p is the probability given to the truth. Lin et al. 2017, Eq. 4. logits, truth in 0 and 1, use: of one shape.
    """
    entropy = F.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    values = entropy * (1 - (-entropy).exp()).pow(GAMMA) * use
    return values.sum() / use.sum().clamp(min=1)


def truncated(logits: Tensor, spoilt: Tensor, use: Tensor) -> Tensor:
    """Computes a map's truncated L1, a scalar.

    How far normal places are above -MARGIN and others below MARGIN, each a mean.
    """
    short = (torch.where(spoilt, -logits, logits) + MARGIN).clamp(min=0)
    means = [(short * cells).sum() / cells.sum().clamp(min=1) for cells in (spoilt & use, ~spoilt & use)]
    return means[0] + means[1]


def perlin(count: int, side: int, draws: torch.Generator) -> Tensor:
    """Draws gradient noise (count, side, side) from -1 to 1 (Perlin 1985).

    Each has 2^0 to 2^5 cells a side, drawn for both sides apart, as far as the side allows. It is stretched to its
    bounds: noise that nowhere reaches a threshold would teach nothing.
    """
    most, images = min(6, max(int(np.log2(side)), 1)), []
    for _ in range(count):
        down, right = (2 ** int(torch.randint(most, (1,), generator=draws)) for _ in range(2))
        images.append(gradient_noise(2 * np.pi * torch.rand(down + 1, right + 1, generator=draws), side))
    heights = torch.stack(images)
    low, high = heights.amin((1, 2), keepdim=True), heights.amax((1, 2), keepdim=True)
    return 2 * (heights - low) / (high - low).clamp(min=1e-6) - 1


def gradient_noise(angles: Tensor, side: int) -> Tensor:
    """Computes gradient noise (side, side) over a grid of m x n cells.

    angles (m + 1, n + 1): the direction of the slope at each corner of the grid.
    """
    down, right = (n - 1 for n in angles.shape)
    y, x = ((torch.arange(side) + 0.5) * n / side for n in (down, right))
    corners = []
    for i in (0, 1):
        for j in (0, 1):
            slope = angles[y.long()[:, None] + i, x.long()[None] + j]
            corners.append(slope.sin() * (y.frac() - i)[:, None] + slope.cos() * (x.frac() - j)[None])
    fy, fx = (t.frac() ** 3 * (t.frac() * (6 * t.frac() - 15) + 10) for t in (y, x))
    upper, lower = (corners[i] + fx * (corners[i + 1] - corners[i]) for i in (0, 2))
    return upper + fy[:, None] * (lower - upper)


@DETECTORS.register("supersimplenet", title="SuperSimpleNet", section="Rolih et al. 2024")
class SuperSimpleNet(NetDetector):
    name = "supersimplenet"
    Config = SuperSimpleNetConfig
    Training = SuperSimpleNetTraining
    takes_encoder = True
    takes_marks = True
    presets = {
        "paper": SuperSimpleNetConfig(),
        "quick": SuperSimpleNetConfig(steps=300, batch=8, finer=1, hidden=256, convolved=64),
    }

    @classmethod
    def build(cls, encoder: Encoder, config: SuperSimpleNetConfig, size: int) -> nn.Module:
        return SuperSimpleNetNet(encoder, config)

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        maps, verdicts = self.net(x)
        return {"maps": maps, "verdict": verdicts}

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Scores by the classification head's logit (N,), of the whole image always."""
        score: np.ndarray = prediction.extras["verdict"]
        return score

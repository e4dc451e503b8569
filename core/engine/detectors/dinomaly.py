"""Dinomaly (Guo et al. 2025, "Dinomaly: The Less Is More Philosophy in Multi-Class Unsupervised Anomaly Detection").

A frozen vision transformer's eight middle layers are averaged, passed through an MLP with dropout (the noisy
bottleneck), and rebuilt by as many blocks of linear attention, whose softmax is left out so that nothing is copied
place by place. Layers are compared as the means of two groups (loose reconstruction) by 1 - cosine; gradients of the
places that are rebuilt well already are cut to a tenth, of more and more of them up to nine in ten (hard mining). The
map is the mean of the two groups' distances, the score the mean of its highest hundredth.

Ours: AdamW with AMSGrad and a clipped gradient where the paper has StableAdamW, and the map's hundredth is taken of the
patches' grid. Tried with networks of random weights alone: none of DINOv2's was at hand, so no figure is known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig
from core.engine.detectors.anomaly_dino import highest
from core.engine.detectors.base import Prediction
from core.engine.detectors.comparators.nets import NetConfig, NetDetector, NetTraining
from core.engine.registry import DETECTORS
from core.engine.training.schedule import set_rate, warm_cosine

LAYERS, GROUPS = 8, 2
EASY = 0.1  # of a gradient that is kept where a place is rebuilt well


@dataclass(frozen=True)
class DinomalyConfig(NetConfig):
    """dropout: of the bottleneck (0.2; the paper has 0.4 for images of one kind of texture). heads: of the attention.
    easy: share of the places that count as easy from step `mining` on. clip: of the gradient's norm. width and latent
    have no part in it.
    """

    steps: int = 10_000
    batch: int = 16
    lr: float = 2e-3
    weight_decay: float = 1e-4
    dropout: float = 0.2
    heads: int = 6
    easy: float = 0.9
    mining: int = 1000
    clip: float = 0.1
    sigma: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dropout < 1 or not 0 <= self.easy < 1 or min(self.heads, self.mining) < 1 or self.clip <= 0:
            raise BadConfig("dropout and easy are from 0 to below 1, heads and mining at least 1, clip above 0")


class LinearAttention(nn.Module):
    """Linear attention, (B, N, C) -> the same: phi(q) (phi(k)^T v) / phi(q) sum of phi(k), phi = ELU + 1
    (Katharopoulos et al. 2020).
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # each (B, heads, N, C / heads)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        total = (q * k.sum(2, keepdim=True)).sum(3, keepdim=True)
        out = q @ (k.transpose(2, 3) @ v) / total
        projected: Tensor = self.proj(out.transpose(1, 2).flatten(2))
        return projected


class Block(nn.Module):
    """A transformer block with linear attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-8), nn.LayerNorm(width, eps=1e-8)
        self.attention = LinearAttention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class DinomalyNet(nn.Module):
    """The frozen encoder, always in eval mode, and the bottleneck and decoder that rebuild its layers."""

    def __init__(self, encoder: Encoder, config: DinomalyConfig, size: int) -> None:
        """Raises ValueError unless the encoder is a vision transformer."""
        super().__init__()
        self.encoder = encoder.eval().requires_grad_(False)
        with torch.no_grad():
            layers = self.encoder.blocks(torch.zeros(1, 3, size, size), LAYERS)
        width = layers[0].shape[1]
        if width % config.heads:
            raise ValueError(f"heads is a divisor of the encoder's width, {width}; not {config.heads}")
        drop, hidden = config.dropout, 4 * width
        self.bottleneck = nn.Sequential(
            nn.Dropout(drop), nn.Linear(width, hidden), nn.GELU(), nn.Dropout(drop), nn.Linear(hidden, width),
            nn.Dropout(drop),
        )  # fmt: skip
        self.decoder = nn.ModuleList(Block(width, config.heads) for _ in layers)
        for module in [*self.bottleneck.modules(), *self.decoder.modules()]:
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.01, a=-0.03, b=0.03)
                nn.init.zeros_(module.bias)

    def train(self, mode: bool = True) -> DinomalyNet:
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(self, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Rebuilds the encoder's layers of x (B, 3, S, S) in [0, 1].

        Returns the encoder's groups and the rebuilt ones, each (B, C, h, w). The last layer is rebuilt first.
        """
        with torch.no_grad():
            layers = self.encoder.blocks(x, LAYERS)
        shape = layers[0].shape
        h = self.bottleneck(torch.stack(layers).mean(0).flatten(2).transpose(1, 2))
        rebuilt: list[Tensor] = []
        for block in self.decoder:
            h = block(h)
            rebuilt.insert(0, h.transpose(1, 2).reshape(shape))
        return grouped(layers), grouped(rebuilt)


def grouped(layers: list[Tensor]) -> list[Tensor]:
    """Averages each half of the layers: means (B, C, h, w)."""
    half = max(1, len(layers) // GROUPS)
    return [torch.stack(group).mean(0) for group in (layers[:half], layers[half:]) if group]


def mined_loss(wanted: Iterable[Tensor], rebuilt: Iterable[Tensor], easy: float) -> Tensor:
    """Computes the mean over groups and images of 1 - cosine of whole maps (B, C, h, w), a scalar.

    The share `easy` of the places of a batch, those with the least distance, get EASY of their gradient.
    """
    terms = []
    for a, b in zip(wanted, rebuilt, strict=True):
        with torch.no_grad():
            distance = 1 - F.cosine_similarity(a, b, dim=1)  # (B, h, w)
            weight = torch.where(distance < distance.flatten().quantile(easy), EASY, 1.0)[:, None]
        b = b * weight + (b * (1 - weight)).detach()  # the same values, another gradient
        terms.append(1 - F.cosine_similarity(a.flatten(1), b.flatten(1)))
    return torch.stack(terms).mean()


class DinomalyTraining(NetTraining):
    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        self.learnt = [p for p in self.net.parameters() if p.requires_grad]
        c = self.config
        return {"optimiser": torch.optim.AdamW(self.learnt, c.lr, eps=1e-10, weight_decay=c.weight_decay, amsgrad=True)}

    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        c, optimiser = self.config, self.optimisers["optimiser"]
        with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=draws)))  # of the dropout
            wanted, rebuilt = self.net(x)
        loss = mined_loss(wanted, rebuilt, c.easy * min(1.0, self.step / c.mining))
        set_rate(optimiser, c.lr * warm_cosine(self.step, self.steps, 100 / max(self.steps, 1000), 0.1))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.learnt, c.clip)
        optimiser.step()
        return {"loss": loss}


@DETECTORS.register("dinomaly", title="Dinomaly", section="Guo et al. 2025", vit=True)
class Dinomaly(NetDetector):
    name = "dinomaly"
    Config = DinomalyConfig
    Training = DinomalyTraining
    takes_encoder = True
    presets = {"paper": DinomalyConfig(), "quick": DinomalyConfig(steps=300, batch=8)}

    @classmethod
    def build(cls, encoder: Encoder, config: DinomalyConfig, size: int) -> nn.Module:
        return DinomalyNet(encoder, config, size)

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        wanted, rebuilt = self.net(x)
        distances = [1 - F.cosine_similarity(a, b, dim=1) for a, b in zip(wanted, rebuilt, strict=True)]
        return {"maps": torch.stack(distances).mean(0)}

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Scores by the mean of the highest hundredth of the map, inside `roi` if given: (N,) float32."""
        return highest(prediction.maps, roi)

"""PANDA (Reiss et al. 2021, "PANDA: Adapting Pretrained Features for Anomaly Detection and Segmentation").

Pre-trained features are pulled towards their mean over the normal images (the compactness loss of DeepSVDD). Training
stops before they collapse (the variant with early stopping). The score is the distance to the nearest normal features.
Elastic weight consolidation is not implemented, because its Fisher information needs ImageNet's labelled images.

By default the score is a sum of distances, as in that paper. The option `squared`, which the preset `published` sets,
sums squared distances as in the released code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from core.engine.backbones.config import STRIDES
from core.engine.backbones.encoder import Encoder
from core.engine.config import option
from core.engine.detectors.comparators.nets import EncoderNet, NetConfig, NetDetector, NetTraining
from core.engine.detectors.nearest.memory import Memory
from core.engine.registry import DETECTORS
from core.engine.tensors import to_batch


@dataclass(frozen=True)
class PANDAConfig(NetConfig):
    """Options of PANDA. `width` and `latent` have no effect.

    neighbours: Number of nearest neighbours whose distances are summed, 2 in the paper.
    squared: Whether distances are squared, as in the released code.
    clip: Maximum norm to which the gradient is clipped.
    frozen: Stride up to which layers are frozen. With 8, only the last two blocks are trained.
    """

    steps: int = 2400
    lr: float = 1e-2
    neighbours: int = option(2, low=1)
    squared: bool = False
    clip: float = option(1e-3, above=0)
    frozen: int = option(8, choices=STRIDES[:-1])
    sigma: float = 4.0


class PANDANet(EncoderNet):
    """Encoder with frozen early layers, always in eval mode, so that features do not depend on the batch."""

    def __init__(self, encoder: Encoder, frozen: int) -> None:
        super().__init__(encoder)
        side = 64
        depth = [s for s in STRIDES if s <= frozen]
        self.encoder.eval().maps(torch.zeros(1, 3, side, side), depth)[frozen].sum().backward()
        for parameter in self.encoder.parameters():
            parameter.requires_grad_(parameter.grad is None)  # layers on which the fine maps depend have a gradient
            parameter.grad = None
        self.encoder.head.requires_grad_(False)

    def train(self, mode: bool = True) -> PANDANet:
        return super().train(False)


class PANDATraining(NetTraining):
    centre: Tensor | None = None

    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        self.learnt = [p for p in self.net.parameters() if p.requires_grad]
        return {"optimiser": torch.optim.SGD(self.learnt, self.config.lr, 0.9, weight_decay=5e-5)}

    def prepare(self) -> None:
        if self.centre is None:
            self.centre = pooled(self.net, self.images, self.device, self.config.batch).mean(0)

    def tensors(self) -> dict[str, Tensor]:
        return {} if self.centre is None else {"centre": self.centre}

    def restore_tensors(self, tensors: dict[str, Tensor]) -> None:
        self.centre = tensors["centre"].to(self.device) if "centre" in tensors else None

    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        loss = compactness(self.net.maps(x).mean((2, 3)), self.centre)
        self.optimisers["optimiser"].zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.learnt, self.config.clip)
        self.optimisers["optimiser"].step()
        return {"loss": loss}


def compactness(features: Tensor, centre: Any) -> Tensor:
    """Computes the mean over images of || f - c ||^2 for features f, `(B, F)`, and their centre c, `(F,)`."""
    return (features - centre).square().sum(1).mean()


@torch.no_grad()
def pooled(net: PANDANet, images: np.ndarray, device: torch.device, batch: int) -> Tensor:
    """Computes the pooled features, `(N, F)`, of images, `uint8 (N, S, S, 3)`."""
    features = [net.maps(to_batch(images[i : i + batch], device)).mean((2, 3)) for i in range(0, len(images), batch)]
    return torch.cat(features)


@DETECTORS.register("panda", title="PANDA", section="Table detection; Reiss et al. 2021")
class PANDA(NetDetector):
    """PANDA detector. The score is the sum of the distances to the nearest normal features.

    PANDA itself has no heat map. This heat map shows how far features at each position are from their normal mean.
    """

    name = "panda"
    Config = PANDAConfig
    Training = PANDATraining
    presets = {
        "paper": PANDAConfig(),
        "published": PANDAConfig(squared=True),
        "quick": PANDAConfig(steps=60, batch=16, clip=0.1),
    }

    @classmethod
    def build(cls, encoder: Encoder, config: PANDAConfig, size: int) -> nn.Module:
        return PANDANet(encoder, config.frozen)

    @torch.no_grad()
    def settle(self, images: np.ndarray) -> dict[str, Tensor]:
        """Computes `memory`, `(N, F)`, the features of normal images, and `cells`, `(F, h, w)`, their mean map."""
        features, total, step = [], torch.zeros(()), self.config.batch
        for start in range(0, len(images), step):
            maps = self.net.maps(to_batch(images[start : start + step], self.device))
            features.append(maps.mean((2, 3)))
            total = total.to(self.device) + maps.sum(0)
        return {"memory": torch.cat(features), "cells": total / len(images)}

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        maps, features = self.net.maps(x), self.normals["memory"]
        none = torch.zeros(len(features), 0, dtype=torch.long, device=features.device)
        memory = Memory(features, none, none, none)
        distances, _ = memory.search(maps.mean((2, 3)), min(self.config.neighbours, len(features)))
        distances = distances.square() if self.config.squared else distances
        return {"maps": (maps - self.normals["cells"]).norm(dim=1), "distance": distances.sum(1)}

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Returns the sum of distances, `(B,)`, of each whole image, regardless of the region of interest."""
        return values["distance"]

"""How far each place lies from those of normal images, as one more map for the lesion head's decoder.

A decoder that sees features alone learns to know the fakes it is shown. A distance is large wherever an image is unlike
normal ones, whatever the cause (Rippel, Mertens, Merhof 2021; `mahalanobis` is the detector).
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder
from core.engine.detectors.base import FitContext
from core.engine.detectors.mahalanobis import Mahalanobis, MahalanobisConfig, Normal, features_of
from core.engine.detectors.map_detector import fit_together
from core.engine.tensors import to_batch

STRIDE = 16  # of the map
_CONFIG = MahalanobisConfig(strides=(STRIDE, 32), map_strides=(STRIDE, 32))
_LEARNT_FROM = 64  # images that the map's scale is taken from


class Distances(nn.Module):
    """The encoder as it was before the head learnt, frozen, and the normal distribution of its features."""

    mean: Tensor
    whitening: Tensor
    level: Tensor
    spread: Tensor

    def __init__(self, encoder: Encoder) -> None:
        """The encoder is copied."""
        super().__init__()
        self.encoder = copy.deepcopy(encoder).requires_grad_(False)
        wide = sum(encoder.widths[s] for s in _CONFIG.map_strides)
        self.register_buffer("mean", torch.zeros(wide))
        self.register_buffer("whitening", torch.eye(wide))
        self.register_buffer("level", torch.zeros(()))
        self.register_buffer("spread", torch.ones(()))

    def train(self, mode: bool = True) -> Self:
        """Always as in scoring: batch norms of the copy keep what they know."""
        return super().train(False)

    @torch.no_grad()
    def learn(self, images: np.ndarray, context: FitContext) -> None:
        """From normal images uint8 (N, S, S, 3), one pass; the context's region of interest is where places count."""
        detector = fit_together(self.encoder, images, [(Mahalanobis, _CONFIG)], context)[0]
        self.to(context.device).train(False)
        self.mean.copy_(detector.normals["cells"].mean)
        self.whitening.copy_(detector.normals["cells"].whitening)
        x = to_batch(np.asarray(images[:_LEARNT_FROM]), self.mean.device)
        far = torch.cat([self(part) for part in x.split(16)])
        self.level.copy_(far.mean())
        self.spread.copy_(far.std().clamp_min(1e-6))

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, S, S) in [0, 1] -> (B, 1, S/16, S/16) float32: mean 0 and deviation 1 over places of normal images."""
        with torch.autocast(x.device.type, enabled=False):
            maps = self.encoder.maps(x.float(), set(_CONFIG.map_strides))
            far = Normal(self.mean, self.whitening).distance(features_of(maps, _CONFIG, None)["cells"])
        return ((far - self.level) / self.spread)[:, None]

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
WANTED = set(_CONFIG.map_strides)
_LEARNT_FROM = 64  # images that the map's scale is taken from


class Distances(nn.Module):
    """The normal distribution of the features of the encoder as it was before the head learnt.

    Where the head trains its encoder, a frozen copy of it is kept; a head that leaves it alone gives its own maps.
    """

    mean: Tensor
    whitening: Tensor
    level: Tensor
    spread: Tensor

    def __init__(self, encoder: Encoder, trained: bool) -> None:
        """trained: whether the encoder will be, so that it must be copied."""
        super().__init__()
        self.encoder = copy.deepcopy(encoder).requires_grad_(False) if trained else None
        wide = sum(encoder.widths[s] for s in _CONFIG.map_strides)
        self.register_buffer("mean", torch.zeros(wide))
        self.register_buffer("whitening", torch.eye(wide))
        self.register_buffer("level", torch.zeros(()))
        self.register_buffer("spread", torch.ones(()))

    def train(self, mode: bool = True) -> Self:
        """Always as in scoring: batch norms of the copy keep what they know."""
        return super().train(False)

    @torch.no_grad()
    def learn(self, encoder: Encoder, images: np.ndarray, context: FitContext) -> None:
        """From normal images uint8 (N, S, S, 3), one pass of the encoder; the context's region of interest is where
        places count.
        """
        detector = fit_together(encoder, images, [(Mahalanobis, _CONFIG)], context)[0]
        self.to(context.device).train(False)
        self.mean.copy_(detector.normals["cells"].mean)
        self.whitening.copy_(detector.normals["cells"].whitening)
        x = to_batch(np.asarray(images[:_LEARNT_FROM]), self.mean.device)
        encoder = encoder.to(x.device).eval()
        far = torch.cat([self(part, encoder.maps(part, WANTED)) for part in x.split(16)])
        self.level.copy_(far.mean())
        self.spread.copy_(far.std().clamp_min(1e-6))

    @torch.no_grad()
    def forward(self, x: Tensor, maps: dict[int, Tensor]) -> Tensor:
        """x (B, 3, S, S) in [0, 1] and what the head's encoder makes of it -> (B, 1, S/16, S/16) float32, of mean 0
        and deviation 1 over places of normal images.
        """
        with torch.autocast(x.device.type, enabled=False):
            seen = maps if self.encoder is None else self.encoder.maps(x.float(), WANTED)
            seen = {s: seen[s].float() for s in WANTED}
            far = Normal(self.mean, self.whitening).distance(features_of(seen, _CONFIG, None)["cells"])
        return ((far - self.level) / self.spread)[:, None]

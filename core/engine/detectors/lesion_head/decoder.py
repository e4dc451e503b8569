"""Network of the lesion head: a light top-down decoder on the encoder's maps, and a class head on its features."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder
from core.engine.detectors.base import FitContext
from core.engine.detectors.mahalanobis import Mahalanobis, MahalanobisConfig, distance, features_of
from core.engine.detectors.map_detector import fit_together
from core.engine.tensors import to_batch

SKIPS = (2, 4, 8, 16)  # strides of the maps that are fused, fine to coarse


def _smooth(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True))


class LesionDecoder(nn.Module):
    """Decoder that fuses maps of strides 16 to 2 into a map of lesion logits, and classifies the pooled features.

    The finest level has half the width, because it has most of the cells and takes most of the time.
    """

    def __init__(self, widths: dict[int, int], width: int = 64, classes: int = 4) -> None:
        super().__init__()
        fine = width // 2
        self.lateral = nn.ModuleDict({str(s): nn.Conv2d(widths[s], fine if s == 2 else width, 1) for s in SKIPS})
        self.smooth = nn.ModuleDict({"8": _smooth(width), "4": _smooth(width), "2": _smooth(fine)})
        self.narrow = nn.Conv2d(width, fine, 1)
        self.logit = nn.Conv2d(fine, 1, 1)
        self.classify = nn.Linear(widths[32], classes)
        # Few cells are part of a lesion, so training starts from a small probability.
        with torch.no_grad():
            self.logit.get_parameter("bias").fill_(-3.0)

    def forward(self, maps: dict[int, Tensor]) -> tuple[Tensor, Tensor]:
        """Computes lesion logits, `(B, S/2, S/2)`, and class logits, `(B, k + 1)`, from the encoder's maps."""
        y = self.lateral["16"](maps[16])
        for stride in (8, 4, 2):
            if stride == 2:
                y = self.narrow(y)
            finer = self.lateral[str(stride)](maps[stride])
            y = self.smooth[str(stride)](
                finer + F.interpolate(y, finer.shape[-2:], mode="bilinear", align_corners=False)
            )
        return self.logit(y)[:, 0], self.classify(Encoder.pool(maps))


class LesionNet(nn.Module):
    """Encoder and decoder in one module, with the class centres from which distances are computed."""

    centres: Tensor  # (k + 1, D)

    def __init__(
        self, encoder: Encoder, width: int, classes: int, distances: bool = False, trained: bool = True
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.distances = Distances(encoder, trained) if distances else None
        widths = {s: wide + (distances and s == STRIDE) for s, wide in encoder.widths.items()}
        self.decoder = LesionDecoder(widths, width, classes)
        self.register_buffer("centres", torch.zeros(classes, encoder.config.dim))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Computes all outputs for images x in [0, 1], `(B, 3, S, S)`, in one pass of the encoder.

        Returns lesion logits, `(B, S/2, S/2)`, class logits, `(B, k + 1)`, and projections f_theta(x), `(B, D)`.
        """
        maps = self.encoder.maps(x)
        inputs = maps
        if self.distances is not None:
            inputs = {**maps, STRIDE: torch.cat([maps[STRIDE], self.distances(x, maps).to(maps[STRIDE].dtype)], 1)}
        logits, classes = self.decoder(inputs)
        return logits, classes, self.encoder.project(Encoder.pool(maps))


# An additional map for the decoder shows the distance of each position from normal images. From features alone, a
# decoder learns to recognise the synthetic lesions of its training. The distance is large wherever an image is unlike
# normal images, whatever the cause (Rippel, Mertens, Merhof 2021, as in the detector `mahalanobis`).
STRIDE = 16  # stride of this map
_CONFIG = MahalanobisConfig(strides=(STRIDE, 32), map_strides=(STRIDE, 32))
INPUTS = set(_CONFIG.map_strides)
_SCALE_IMAGES = 64  # number of images from which the map's scale is estimated


class Distances(nn.Module):
    """Map of distances from normal images, in the feature space of the encoder before the head is trained.

    If the head trains its encoder, this module uses a frozen copy of the original. Otherwise it uses the head's maps.
    """

    mean: Tensor
    whitening: Tensor
    level: Tensor
    spread: Tensor

    def __init__(self, encoder: Encoder, trained: bool) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder).requires_grad_(False) if trained else None
        wide = sum(encoder.widths[s] for s in _CONFIG.map_strides)
        self.register_buffer("mean", torch.zeros(wide))
        self.register_buffer("whitening", torch.eye(wide))
        self.register_buffer("level", torch.zeros(()))
        self.register_buffer("spread", torch.ones(()))

    def train(self, mode: bool = True) -> Self:
        """Keeps the module in eval mode whatever `mode` is, so that the batch norms of the copy do not change."""
        return super().train(False)

    @torch.no_grad()
    def learn(self, encoder: Encoder, images: np.ndarray, context: FitContext) -> None:
        """Fits the features' distribution (in regions of interest) and scale to normal images, `uint8 (N, S, S, 3)`."""
        detector = fit_together(encoder, images, [(Mahalanobis, _CONFIG)], context)[0]
        self.to(context.device).train(False)
        self.mean.copy_(detector.normals["cells"].mean)
        self.whitening.copy_(detector.normals["cells"].whitening)
        x = to_batch(np.asarray(images[:_SCALE_IMAGES]), self.mean.device)
        encoder = encoder.to(x.device).eval()
        distances = torch.cat([self(chunk, encoder.maps(chunk, INPUTS)) for chunk in x.split(16)])
        self.level.copy_(distances.mean())
        self.spread.copy_(distances.std().clamp_min(1e-6))

    @torch.no_grad()
    def forward(self, x: Tensor, maps: dict[int, Tensor]) -> Tensor:
        """Computes the distance of each position from normal images, `float32 (B, 1, S/16, S/16)`.

        The distances are standardised to mean 0 and standard deviation 1 on normal images.

        Args:
            x: Images in [0, 1], `(B, 3, S, S)`.
            maps: Maps that the head's encoder computes from x, by stride.
        """
        with torch.autocast(x.device.type, enabled=False):
            inputs = maps if self.encoder is None else self.encoder.maps(x.float(), INPUTS)
            inputs = {s: inputs[s].float() for s in INPUTS}
            distances = distance(features_of(inputs, _CONFIG, None)["cells"], self.mean, self.whitening)
        return ((distances - self.level) / self.spread)[:, None]

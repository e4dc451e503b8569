"""The lesion head's network: a light top-down decoder on the encoder's maps, and a class head on its features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones.encoder import Encoder

CHANNELS = {"stem": 64, "layer1": 64, "layer2": 128, "layer3": 256}


def _smooth(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True))


class LesionDecoder(nn.Module):
    """Maps of stem and layers 1-3, fused top down, to one logit a cell: (B, S/2, S/2).

    The finest level has half the width: it holds most of the cells, and so most of the time.
    """

    def __init__(self, width: int = 64, classes: int = 4, features: int = 512) -> None:
        super().__init__()
        fine = width // 2
        self.lateral = nn.ModuleDict(
            {name: nn.Conv2d(c, fine if name == "stem" else width, 1) for name, c in CHANNELS.items()}
        )
        self.smooth = nn.ModuleDict({"layer2": _smooth(width), "layer1": _smooth(width), "stem": _smooth(fine)})
        self.narrow = nn.Conv2d(width, fine, 1)
        self.logit = nn.Conv2d(fine, 1, 1)
        self.classify = nn.Linear(features, classes)
        # Few cells are lesion: starting from a small probability spares the first steps from unlearning a half.
        nn.init.constant_(self.logit.bias, -3.0)

    def forward(self, maps: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Encoder.maps(x) -> lesion logits (B, S/2, S/2), class logits over A_0..A_k (B, k+1)."""
        y = self.lateral["layer3"](maps["layer3"])
        for name in ("layer2", "layer1", "stem"):
            if name == "stem":
                y = self.narrow(y)
            finer = self.lateral[name](maps[name])
            y = self.smooth[name](finer + F.interpolate(y, finer.shape[-2:], mode="bilinear", align_corners=False))
        return self.logit(y)[:, 0], self.classify(maps["layer4"].mean((2, 3)))


class LesionNet(nn.Module):
    """Encoder and decoder as one module, and the class centres their distances are taken to."""

    def __init__(self, encoder: Encoder, width: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = LesionDecoder(width, classes, encoder.features)
        self.register_buffer("centres", torch.zeros(classes, encoder.config.dim))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, 3, S, S) in [0, 1] -> lesion logits (B, S/2, S/2), class logits (B, k+1), f_theta(x) (B, 128).

        One pass of the encoder serves all three.
        """
        maps = self.encoder.maps(x)
        logits, classes = self.decoder(maps)
        return logits, classes, self.encoder.project(maps["layer4"].mean((2, 3)))

"""Gaussian noise as the strong augmentation (compared in Fig. ablation_transformation)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from core.engine.augment.colour import grey_images
from core.engine.augment.config import strong_classes
from core.engine.augment.hashing import hashed_normal
from core.engine.augment.mixed import Mixed
from core.engine.augment.strong import Strong
from core.engine.config import Config, option
from core.engine.registry import STRONG
from core.engine.tensors import to_device

_CHUNK = {"cpu": 4}


@dataclass(frozen=True)
class NoiseConfig(Config):
    """Options of noise."""

    k: int = strong_classes()
    sigma: float = option(
        0.06, "Standard deviation of A_1's noise, of the range 0 to 1; A_n has n times as much.", above=0, high=1
    )


@STRONG.register("noise", title="Gaussian noise", section="Fig. ablation_transformation")
class Noise(Strong):
    Config = NoiseConfig
    config: NoiseConfig

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """The whole image, or the whole region of interest, grows noisy; one seed per image. Grey images stay grey."""
        counts = self.counts(n, x)
        seed = torch.randint(2**31 - 1, (len(x),), generator=generator).to(x.device)
        sigma = (counts * self.config.sigma).to(x.device, x.dtype)
        at = torch.arange(x.shape[-1], device=x.device)
        images, grey = x.clone(), to_device(grey_images(x), x.device)
        for rows in torch.split(torch.nonzero(counts > 0)[:, 0], _CHUNK.get(x.device.type, 256)):
            rows = to_device(rows, x.device)
            grain = hashed_normal(seed[rows], at.expand(len(rows), -1), at.expand(len(rows), -1))
            grain = torch.where(grey[rows][:, None, None, None], grain[:, :1], grain)
            if roi is not None:
                grain *= to_device(roi, x.device)[rows, None] > 0
            images[rows] = (x[rows] + sigma[rows, None, None, None] * grain).clamp_(0, 1)
        mixed = self.whole(x, images, counts)
        if roi is not None:
            mixed.masks &= to_device(roi, x.device) > 0
            mixed.alpha *= mixed.masks
        return mixed

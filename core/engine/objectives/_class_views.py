"""Views of the pseudo classes A_0 .. A_k: what PMSACL, CCD and SupCon see."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from core.engine.augment.classes import make_classes
from core.engine.augment.share import Part, Share
from core.engine.augment.strong import Strong
from core.engine.augment.weak import WeakViews
from core.engine.backbones.encoder import Encoder
from core.engine.objectives.base import Objective, Views
from core.engine.objectives.config import PretrainConfig
from core.engine.registry import STRONG


def build_strong(config: PretrainConfig) -> Strong:
    """The strong augmentation the configuration names, made to reach class A_k."""
    strong = STRONG.get(config.strong)
    if config.strong == "medmix":
        return strong(config.medmix.replace(k=config.k))
    return strong(strong.Config.from_dict({**config.strong_options, "k": config.k}))


class ClassViews(Objective):
    """Each image: one strong augmentation per class n in 0..k, then two weak views (l in {0, 1}) of each."""

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.strong: Any = build_strong(config)  # a Strong; MedMix has a pool too
        self.weak = WeakViews(config.weak)

    def cut_from(self, pool: Tensor, roi: Tensor | None = None) -> None:
        self.strong.pool, self.strong.pool_roi = pool, roi

    def mixed(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None, share: Share | None = None
    ) -> tuple[Tensor, Tensor]:
        """x^(n) of each image: (B (k+1), 3, S, S), classes 0..k running fastest, and their labels (B (k+1),)."""
        images, _ = make_classes(self.strong, x, self.config.k, generator, roi, share)
        return images.flatten(0, 1), torch.arange(self.classes, device=x.device).repeat(len(images))

    def _weak(self, mixed: Tensor, generator: torch.Generator, share: Share | None) -> Tensor:
        return self.weak(mixed, generator, share=share and share.times(self.classes))

    def views(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, share: Share | None = None
    ) -> Views:
        mixed, labels = self.mixed(x, generator, roi, share)
        images = torch.cat([self._weak(mixed, generator, share) for _ in range(2)])  # x^(n,0), then x^(n,1)
        partners = torch.arange(2 * len(labels), device=x.device).roll(len(labels))
        return Views(images, labels.repeat(2), partners)

    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True, share: Part = None
    ) -> tuple[Tensor, Tensor]:
        images, labels = self.mixed(x, generator, roi, share)
        return self._weak(images, generator, share) if weak else images, labels

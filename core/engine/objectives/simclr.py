"""SimCLR: two weak views of an image attract, all other images repel (Chen et al. 2020, Eq. 1)."""

from __future__ import annotations

import torch
from torch import Tensor

from core.engine.augment.share import Part, Share, own
from core.engine.augment.weak import WeakViews
from core.engine.backbones.encoder import Encoder
from core.engine.losses.nt_xent import nt_xent
from core.engine.objectives.base import Objective, Outcome, Views
from core.engine.objectives.config import PretrainConfig
from core.engine.registry import OBJECTIVES


@OBJECTIVES.register("simclr", title="SimCLR", section="Table ablation_ssl; Chen et al. 2020")
class SimCLR(Objective):
    """Normal images alone, one class. `k` and the strong augmentation have no part in it."""

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.classes = 1
        self.weak = WeakViews(config.weak)

    def views(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, share: Share | None = None
    ) -> Views:
        x = own(x, share)
        images = torch.cat([self.weak(x, generator, share=share) for _ in range(2)])
        labels = torch.zeros(len(images), dtype=torch.long, device=x.device)
        return Views(images, labels, torch.arange(len(images), device=x.device).roll(len(x)))

    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True, share: Part = None
    ) -> tuple[Tensor, Tensor]:
        x = own(x, share)
        labels = torch.zeros(len(x), dtype=torch.long, device=x.device)
        return self.weak(x, generator, share=share) if weak else x, labels

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        term = nt_xent(z, views.partners, self.config.tau)
        return Outcome(self.config.w_con * term, {"l_con": term.detach()}, z.float().detach())

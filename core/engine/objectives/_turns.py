"""Views turned by quarters: what Rot-Net, CSI and DROC see."""

from __future__ import annotations

import torch
from torch import Tensor

from core.engine.augment.share import Part, Share, own
from core.engine.augment.weak import WeakViews
from core.engine.backbones.encoder import Encoder
from core.engine.objectives.base import Objective, Views
from core.engine.objectives.config import PretrainConfig

TURNS = 4


class TurnedViews(Objective):
    """Four copies of each image, turned by n quarters; each copy takes its own weak view first.

    The weak view comes first because a mirrored copy turned by one quarter is that of another image turned by three:
    after the turn it would make the label ambiguous. `k` and the strong augmentation have no part in it.
    """

    sides = 2  # views of each copy

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.classes = TURNS
        self.weak = WeakViews(config.weak)

    def views(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, share: Share | None = None
    ) -> Views:
        parts = [self.samples(x, generator, roi, share=share) for _ in range(self.sides)]
        images, labels = (torch.cat(values) for values in zip(*parts, strict=True))
        partners = torch.arange(len(images), device=x.device).roll(len(images) // self.sides)
        return Views(images, labels, partners)

    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True, share: Part = None
    ) -> tuple[Tensor, Tensor]:
        """Copies turned by 0..3 quarters anticlockwise, running fastest: (4 B, 3, S, S), and labels (4 B,)."""
        x = own(x, share)
        copies = x.repeat_interleave(TURNS, 0)
        copies = self.weak(copies, generator, share=share and share.times(TURNS)) if weak else copies
        each = copies.view(len(x), TURNS, *x.shape[1:])
        turned = torch.stack([torch.rot90(each[:, n], n, (2, 3)) for n in range(TURNS)], 1)
        return turned.flatten(0, 1), torch.arange(TURNS, device=x.device).repeat(len(x))

"""PMSACL, the local model: Eq. 1 on 32 x 32 patches, each an instance."""

from __future__ import annotations

import torch
from torch import Tensor

from core.engine.augment.share import Part, Share, own
from core.engine.objectives._position import draw_pairs
from core.engine.objectives.base import Views
from core.engine.objectives.pmsacl import PMSACL
from core.engine.registry import OBJECTIVES


@OBJECTIVES.register("pmsacl-local", title="PMSACL (local patches)", section="Sec. PMSACL pre-training")
class LocalPMSACL(PMSACL):
    """A step draws one pair of neighbouring patches from each image.

    l_pos finds from the plain pair where the second lies (8 neighbours). The first is also the instance that the other
    losses see: it goes through MedMix with the other patches of the minibatch, and through the weak views.
    """

    always_places = True

    def pairs(self, x: Tensor, generator: torch.Generator, roi: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor]:
        """Patches (2, B, 3, p, p), the first ones' region of interest (B, p, p) or None, and places (B,)."""
        return draw_pairs(x, self.config, generator, roi)

    def cut_from(self, pool: Tensor, roi: Tensor | None = None) -> None:
        """As patches side by side, those that lie mostly inside the region of interest."""
        p = self.config.patch
        patches = pool.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).flatten(0, 2)
        inside = None
        if roi is not None:
            inside = roi.unfold(1, p, p).unfold(2, p, p).flatten(0, 2)
            kept = inside.float().mean((1, 2)) >= 0.5
            if bool(kept.any()):
                patches, inside = patches[kept], inside[kept]
        super().cut_from(patches, inside)

    def views(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, share: Share | None = None
    ) -> Views:
        patches, inside, places = self.pairs(x, generator, roi)
        views = super(PMSACL, self).views(patches[0], generator, inside, share)  # the pairs are drawn already
        pairs = [own(side, share) for side in patches]
        return Views(torch.cat([views.images, *pairs]), views.labels, views.partners, own(places, share))

    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True, share: Part = None
    ) -> tuple[Tensor, Tensor]:
        patches, inside, _ = self.pairs(x, generator, roi)
        return super().samples(patches[0], generator, inside, weak, share)

"""PMSACL, the local model: Eq. 1 on 32 x 32 patches, each an instance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig
from core.engine.losses.position import NEIGHBOURS, cut, draw_corners, position_loss
from core.engine.objectives.base import Outcome, Views
from core.engine.objectives.config import PretrainConfig
from core.engine.objectives.pmsacl import PMSACL
from core.engine.registry import OBJECTIVES

HIDDEN = 128  # of f_gamma; the paper gives no layers for it
TRIES = 4  # places drawn per image to find one inside the region of interest


@OBJECTIVES.register("pmsacl-local", title="PMSACL (local patches)", section="Sec. PMSACL pre-training")
class LocalPMSACL(PMSACL):
    """A step draws one pair of neighbouring patches from each image.

    l_pos finds from the plain pair where the second lies (8 neighbours). The first is also the instance that the other
    losses see: it goes through MedMix with the other patches of the minibatch, and through the weak views.
    """

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        if config.size < 2 * config.patch:
            raise BadConfig(
                f"two neighbouring patches of {config.patch} pixels do not fit in images of {config.size}; "
                f"take images of at least {2 * config.patch} pixels, or the global objective 'pmsacl'"
            )
        width = encoder.config.dim * (2 if config.pos_on == "pair" else 1)
        self.place = nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(inplace=True), nn.Linear(HIDDEN, len(NEIGHBOURS)))

    def pairs(self, x: Tensor, generator: torch.Generator, roi: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor]:
        """Patches (2, B, 3, p, p), the first ones' region of interest (B, p, p) or None, and places (B,)."""
        patch, tries = self.config.patch, 1 if roi is None else TRIES
        drawn = [draw_corners(len(x), x.shape[-1], patch, self.config.pos_jitter, generator) for _ in range(tries)]
        first, second, places = (torch.stack(parts) for parts in zip(*drawn, strict=True))  # (tries, B, 2), (tries, B)
        inside, best, each = None, torch.zeros(len(x), dtype=torch.long), torch.arange(len(x))
        if roi is not None:
            inside = torch.stack([cut(roi[:, None], spot, patch)[:, 0] for spot in first])  # (tries, B, p, p)
            share = inside.float().mean((2, 3)).cpu()
            # The first that is mostly inside, or else the one most inside.
            best = (share + (share >= 0.5) * torch.arange(tries, 0, -1)[:, None]).argmax(0)
            inside = inside[best, each]
        patches = torch.stack([cut(x, spots[best, each], patch) for spots in (first, second)])
        return patches, inside, places[best, each].to(x.device)

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

    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        patches, inside, places = self.pairs(x, generator, roi)
        views = super().views(patches[0], generator, inside)
        return Views(torch.cat([views.images, *patches]), views.labels, views.partners, places)

    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True
    ) -> tuple[Tensor, Tensor]:
        patches, inside, _ = self.pairs(x, generator, roi)
        return super().samples(patches[0], generator, inside, weak)

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        outcome = super().loss(h, z, views, centres)
        first, second = z[len(views.labels) :].float().chunk(2)
        pair = torch.cat([first, second], 1) if self.config.pos_on == "pair" else first - second
        assert views.places is not None  # `views` makes them
        term = position_loss(self.place(pair), views.places)
        outcome.terms["l_pos"] = term.detach()
        outcome.loss = outcome.loss + self.config.w_pos * term
        return outcome

"""l_pos for any objective: pairs of neighbouring patches, and the head f_gamma: where does the second lie?"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.augment.share import Share, own
from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig
from core.engine.losses.position import NEIGHBOURS, cut, draw_corners, position_loss
from core.engine.objectives.base import Outcome, Views
from core.engine.objectives.config import PretrainConfig

HIDDEN = 128  # of f_gamma; the paper gives no layers for it
TRIES = 4  # places drawn per image to find one inside the region of interest


def place_head(config: PretrainConfig, encoder: Encoder) -> nn.Sequential:
    """f_gamma: Z x Z -> logits of the eight neighbours. Raises BadConfig where two patches do not fit in an image."""
    if config.size < 2 * config.patch:
        raise BadConfig(
            f"two neighbouring patches of {config.patch} pixels do not fit in images of {config.size}; "
            f"take images of at least {2 * config.patch} pixels, or an objective without l_pos such as 'pmsacl'"
        )
    width = encoder.config.dim * (2 if config.pos_on == "pair" else 1)
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(inplace=True), nn.Linear(HIDDEN, len(NEIGHBOURS)))


def draw_pairs(
    x: Tensor, config: PretrainConfig, generator: torch.Generator, roi: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor]:
    """One pair of each image: patches (2, B, 3, p, p), the first ones' region of interest (B, p, p), places (B,)."""
    patch, tries = config.patch, 1 if roi is None else TRIES
    drawn = [draw_corners(len(x), x.shape[-1], patch, config.pos_jitter, generator) for _ in range(tries)]
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


def with_pairs(
    views: Views,
    x: Tensor,
    config: PretrainConfig,
    generator: torch.Generator,
    roi: Tensor | None,
    share: Share | None = None,
) -> Views:
    """`views` of whole images, and behind them one pair of patches of each of x (B, 3, S, S).

    The patches are enlarged to the images' size, so that one pass of the network takes all; the papers do not say how
    a model of whole images sees patches.
    """
    patches, _, places = draw_pairs(x, config, generator, roi)
    patches, places = torch.stack([own(side, share) for side in patches]), own(places, share)
    side = views.images.shape[-1]
    enlarged = F.interpolate(patches.flatten(0, 1), (side, side), mode="bilinear", align_corners=False)
    return Views(torch.cat([views.images, enlarged]), views.labels, views.partners, places)


def add_position(outcome: Outcome, head: nn.Module, z: Tensor, views: Views, config: PretrainConfig) -> Outcome:
    """`outcome` with l_pos of the pairs behind the views, weighted by w_pos. z (V + 2 P, D)."""
    assert views.places is not None  # the objective's `views` makes them
    first, second = z[len(views.labels) :].float().chunk(2)
    pair = torch.cat([first, second], 1) if config.pos_on == "pair" else first - second
    term = position_loss(head(pair), views.places)
    outcome.terms["l_pos"] = term.detach()
    outcome.loss = outcome.loss + config.w_pos * term
    return outcome

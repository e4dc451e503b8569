"""SimCLR's weak augmentation: crop, resize, flip, colour jitter, grey, blur; one draw per image, all images at once."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import overload

import torch
from torch import Tensor

from core.engine.augment.colour import PLAIN, jitter_factors
from core.engine.augment.config import WeakConfig
from core.engine.augment.share import Share, own
from core.engine.augment.views import WeakDraws, apply_weak, warp_masks


class WeakViews:
    """views = WeakViews(config); x' = views(x, generator), or x', masks' = views(x, generator, masks)."""

    def __init__(self, config: WeakConfig | None = None) -> None:
        self.config = WeakConfig() if config is None else config

    def draw(self, count: int, side: int, generator: torch.Generator) -> WeakDraws:
        c = self.config
        u = torch.rand(count, 16, generator=generator)
        area = c.crop[0] + u[:, 0] * (c.crop[1] - c.crop[0])
        low, high = math.log(c.ratio[0]), math.log(c.ratio[1])
        ratio = torch.exp(low + u[:, 1] * (high - low))
        h = (area / ratio).sqrt().clamp_(max=1) * side
        w = (area * ratio).sqrt().clamp_(max=1) * side
        sigma = (c.sigma[0] + u[:, 14] * (c.sigma[1] - c.sigma[0])) * side / 256
        return WeakDraws(
            box=torch.stack([u[:, 2] * (side - h), u[:, 3] * (side - w), h, w], 1),
            flip=u[:, 4] < c.flip,
            factors=torch.where((u[:, 5] < c.p_jitter)[:, None], jitter_factors(u[:, 6:10], c.jitter), PLAIN),
            order=torch.rand(count, 4, generator=generator).argsort(1),
            grey=u[:, 12] < c.p_grey,
            sigma=torch.where(u[:, 13] < c.p_blur, sigma, 0.0),
        )

    @overload
    def __call__(
        self, x: Tensor, generator: torch.Generator, masks: None = None, share: Share | None = None
    ) -> Tensor: ...

    @overload
    def __call__(
        self, x: Tensor, generator: torch.Generator, masks: Tensor, share: Share | None = None
    ) -> tuple[Tensor, Tensor]: ...

    def __call__(
        self, x: Tensor, generator: torch.Generator, masks: Tensor | None = None, share: Share | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """x (B, 3, S, S) in [0, 1] -> the same shape; masks (B, S, S) -> warped by the same crop and flip.

        A grey image (three equal channels) gives a grey view. share: which rows of a joint batch x holds.
        """
        drawn = self.draw(len(x) if share is None else share.total, x.shape[-1], generator)
        if share is not None:
            drawn = WeakDraws(**{f.name: own(getattr(drawn, f.name), share) for f in fields(WeakDraws)})
        images = apply_weak(x, drawn)
        return images if masks is None else (images, warp_masks(masks, drawn))

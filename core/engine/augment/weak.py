"""SimCLR's weak augmentation: crop, resize, flip, colour jitter, grey, blur; one draw per image, all images at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import overload

import torch
from torch import Tensor

from core.engine.augment.colour import PLAIN, jitter_factors
from core.engine.augment.share import Share, own
from core.engine.augment.strong import check_range
from core.engine.augment.views import WeakDraws, apply_weak, warp_masks
from core.engine.config import BadConfig, Config


@dataclass(frozen=True)
class WeakConfig(Config):
    """Defaults are SimCLR's (Chen et al. 2020, appendix A), as the paper asks.

    crop: area of the crop, of the image's. ratio: its width over height. flip: chance of mirroring left and right.
    jitter: brightness, contrast, saturation, hue, with chance p_jitter. p_grey, p_blur: chances.
    sigma: of the blur, in pixels at 256 (scaled with the side).
    """

    crop: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] = (0.8, 0.8, 0.8, 0.2)
    p_jitter: float = 0.8
    p_grey: float = 0.2
    p_blur: float = 0.5
    sigma: tuple[float, float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        check_range("crop", self.crop, 0.01, 1)
        check_range("ratio", self.ratio, 0.1, 10)
        check_range("sigma", self.sigma, 0, 20)
        for name in ("flip", "p_jitter", "p_grey", "p_blur"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadConfig(f"{name} must be within 0..1, not {getattr(self, name)}")
        if min(self.jitter) < 0 or max(self.jitter[:3]) > 1 or self.jitter[3] > 0.5:
            raise BadConfig(f"jitter is brightness, contrast, saturation (0..1) and hue (0..0.5), not {self.jitter}")


WEAK_PRESETS: dict[str, WeakConfig] = {
    "simclr": WeakConfig(),
    "gentle": WeakConfig(crop=(0.6, 1.0), jitter=(0.2, 0.2, 0.2, 0.05), p_grey=0.1, p_blur=0.3, sigma=(0.1, 1.0)),
}


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

"""Growths: synthetic lesions that rise above the tissue; they are drawn, not pasted.

The paper defines an anomaly as "an unusual growth of abnormal tissue" (Sec. MedMix) and imitates it by pasting a
deformed patch. A pasted patch only changes texture. A real growth is also a solid body: it is lit from one side, hides
the tissue behind it, casts a shadow and shines. Each lesion here is a dome over an irregular outline, in the tinted
colour of the tissue beneath, shaded by one random light. Domes range from nearly flat to hemispheres.

Everything is computed for a batch of whole images, on the images' device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.colour import grey_images
from core.engine.augment.config import strong_classes
from core.engine.augment.strong import Mixed, Strong
from core.engine.config import Config, option
from core.engine.registry import STRONG
from core.engine.tensors import on_device


@dataclass(frozen=True)
class GrowthConfig(Config):
    """Options of growths. If an option is a range (low, high), its value is drawn uniformly for each growth."""

    k: int = strong_classes("Largest number of growths in one image.")
    radius: tuple[float, float] = option(
        (0.06, 0.30), "Radius of a growth, relative to the image's side.", above=0, ascending=True
    )
    edge: tuple[float, float] = option((0.012, 0.10), "Softness of the outline, in radii.", above=0, ascending=True)
    irregular: float = option(0.3, "Deviation of the outline from an ellipse.")
    height: tuple[float, float] = option((0.3, 1.1), "Height of the dome, in radii.", above=0, ascending=True)
    tint: float = option(0.2, "Spread of the random tint.")
    texture: float = option(0.12, "Strength of the mottled texture.")
    shadow: float = option(0.5, "Largest strength of the cast shadow.")
    shine: float = option(0.6, "Largest strength of the highlight.")
    alpha: tuple[float, float] = option((0.85, 1.0), "Opacity of a growth.", above=0, ascending=True)


GROWTH_PRESETS = {
    "growth": GrowthConfig(),
    # Polyps seen from near: up to most of the frame, some of them half transparent.
    "body": GrowthConfig(radius=(0.08, 0.38), edge=(0.012, 0.3), texture=0.25, alpha=(0.6, 1.0)),
    # Exudates and opacities rather than polyps: soft-edged and nearly flat.
    "flat": GrowthConfig(
        radius=(0.01, 0.12), edge=(0.1, 0.4), height=(0.02, 0.2), shadow=0.05, shine=0.05, tint=0.35, alpha=(0.4, 1.0)
    ),
}


_LEAST = 0.02  # smaller weights are set to 0, which cuts off the tails of the outline and of the shadow


@STRONG.register("growth", title="Growths", section="Sec. MedMix: unusual growth of abnormal tissue")
class Growth(Strong):
    """Strong augmentation that draws n growths into an image for class A_n.

    The result's `alpha` is the weight of the growth in each pixel, or half the weight of its shadow if that is larger.
    """

    Config = GrowthConfig
    config: GrowthConfig
    presets = GROWTH_PRESETS

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Draws n growths into each image. See `Strong.__call__` for the arguments and the result."""
        counts, side = self.counts(n, x), x.shape[-1]
        roi = None if roi is None else roi.cpu()
        parameters: list[dict[str, Tensor]] = []  # for growth i: indices of the images, and parameters
        for i in range(int(counts.max()) if len(counts) else 0):
            rows = torch.nonzero(counts > i)[:, 0]
            region = {} if roi is None else {"inside": roi[rows].to(x.dtype)}
            parameters.append(
                {"rows": rows, **region, **_draws(self.config, len(rows), side, region.get("inside"), generator)}
            )
        counts, *moved = on_device([counts, *(value for p in parameters for value in p.values())], x.device)
        mixed, values = self.blank(x, counts), iter(moved)
        for i, names in enumerate(parameters):
            p = {name: next(values) for name in names}
            at, inside = p.pop("rows"), p.pop("inside", None)
            fields = _Fields(self.config, p, x.device, side)
            painted, alpha = fields.paint(mixed.images[at], inside)
            mixed.images = mixed.images.index_copy(0, at, painted)
            mixed.alpha[at] = torch.maximum(mixed.alpha[at], alpha)
            mixed.boxes[at, i] = fields.boxes()
        mixed.masks = mixed.alpha > 0
        return mixed


def _draws(
    c: GrowthConfig, batch: int, side: int, inside: Tensor | None, generator: torch.Generator
) -> dict[str, Tensor]:
    """Draws the parameters of one growth for each of `batch` images; `inside` `(B, S, S)` is 1 where it may be."""

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(batch, *shape, generator=generator)

    def log_uniform(low: float, high: float) -> Tensor:
        return torch.exp(uniform(math.log(low), math.log(high)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(batch, *shape, generator=generator)

    weights = torch.ones(batch, side * side) if inside is None else inside.flatten(1) + 1e-6
    spot = torch.multinomial(weights, 1, generator=generator)[:, 0]
    harmonics = torch.arange(2, 7)
    amplitude = uniform(0, c.irregular)[:, None] * normal(5) / harmonics**0.8
    return {
        "cx": (spot % side) / (side - 1) * 2 - 1,
        "cy": torch.div(spot, side, rounding_mode="floor") / (side - 1) * 2 - 1,
        "radius": 2 * log_uniform(*c.radius),  # coordinates run from -1 to 1
        "aspect": torch.exp(uniform(-0.5, 0.5)),
        "angle": uniform(0, math.pi),
        "amplitude": amplitude,
        "phase": uniform(0, 2 * math.pi, 5),
        "edge": log_uniform(*c.edge),
        "alpha": uniform(*c.alpha),
        "tint": 1 + c.tint * torch.stack([uniform(-0.6, 1.25), uniform(-1, 0.75), uniform(-1, 0.75)], 1),
        "local": uniform(0, 1),
        "fine": normal(1, max(2, side // 6), max(2, side // 6)),
        "coarse": normal(1, 10, 10),
        "mottle": uniform(0, c.texture, 2),
        "profile": uniform(1.2, 3.0),
        "height": uniform(*c.height),
        "light": uniform(0, 2 * math.pi),
        "tilt": uniform(0, 0.8),
        "ambient": uniform(0.35, 0.75),
        "exposure": uniform(0.95, 1.35),
        "bumps": 0.08 * normal(3, max(2, side // 5), max(2, side // 5)),
        "gloss": uniform(30, 120),
        "shine": uniform(0, c.shine),
        "shadow": uniform(0, c.shadow),
    }


class _Fields:
    """One growth for each of B images: its parameters on `device`, and the pixel maps computed from them."""

    def __init__(self, config: GrowthConfig, p: dict[str, Tensor], device: torch.device, side: int) -> None:
        self.config, self.p, self.device, self.side = config, p, device, side

    def boxes(self) -> Tensor:
        """Returns the boxes (y0, x0, y1, x1) around the ellipses in pixels, long `(B, 4)`."""
        side = self.side
        reach = self.p["radius"] * torch.maximum(self.p["aspect"], 1 / self.p["aspect"]).sqrt()
        corners = [self.p["cy"] - reach, self.p["cx"] - reach, self.p["cy"] + reach, self.p["cx"] + reach]
        return ((torch.stack(corners, 1) + 1) / 2 * (side - 1)).round().clamp(0, side).long()

    def _noise(self, name: str) -> Tensor:
        size = (self.side, self.side)
        return F.interpolate(self.p[name], size, mode="bicubic", align_corners=False)

    def paint(self, x: Tensor, inside: Tensor | None) -> tuple[Tensor, Tensor]:
        """Paints the growths into x `(B, 3, S, S)`; returns the images and the growths' weights alpha `(B, S, S)`."""
        p = {k: v[:, None, None] if v.dim() == 1 else v for k, v in self.p.items()}
        line = torch.linspace(-1, 1, self.side, device=self.device)
        dy, dx = line[None, :, None] - p["cy"], line[None, None, :] - p["cx"]
        ra, rb = p["radius"] * p["aspect"].sqrt(), p["radius"] / p["aspect"].sqrt()
        u = (dx * p["angle"].cos() + dy * p["angle"].sin()) / ra
        v = (-dx * p["angle"].sin() + dy * p["angle"].cos()) / rb
        polar = torch.atan2(v, u)
        outline = torch.ones_like(u)
        for i, harmonic in enumerate(range(2, 7)):
            amplitude, phase = self.p["amplitude"][:, i, None, None], self.p["phase"][:, i, None, None]
            outline = outline + amplitude * torch.cos(harmonic * polar + phase)
        distance = torch.hypot(u, v) / outline.clamp_min(0.3)  # 1 on the outline
        cover = torch.sigmoid((1 - distance) / p["edge"])

        body = self._colour(x, cover) * self._shade(distance, ra, rb)[:, None] + self._highlight[:, None]
        towards = u * p["light"].cos() + v * p["light"].sin()
        falloff = torch.exp(-(((distance - 1).clamp_min(0) / 0.25) ** 2)) * torch.sigmoid(-3 * towards)
        weight, shadow = cover * p["alpha"], p["shadow"] * falloff
        if inside is not None:
            weight, shadow = weight * inside, shadow * inside
        weight = weight * (weight > _LEAST)
        shadow = shadow * (shadow > _LEAST)
        image = (x * (1 - shadow)[:, None]).lerp(body.clamp(0, 1), weight[:, None])
        return image, torch.maximum(weight, shadow / 2)

    def _colour(self, x: Tensor, cover: Tensor) -> Tensor:
        """Computes the growths' colour `(B, 3, S, S)`: the tissue's mean or blurred colour, tinted and mottled.

        The tint in a grey image is grey.
        """
        area = cover.sum((1, 2)).clamp_min(1e-3)
        mean = ((x * cover[:, None]).sum((2, 3)) / area[:, None])[..., None, None]
        cell = max(2, self.side // 12)
        low = F.interpolate(F.avg_pool2d(x, cell, ceil_mode=True), x.shape[-2:], mode="bilinear", align_corners=False)
        base = torch.lerp(mean.expand_as(x), low, self.p["local"].view(-1, 1, 1, 1)).clamp_min(0.18)
        fine, coarse = self.p["mottle"][:, :1, None, None], self.p["mottle"][:, 1:, None, None]
        mottled = 1 + fine * self._noise("fine") + coarse * self._noise("coarse")
        tint = torch.where(grey_images(x)[:, None], self.p["tint"].mean(1, keepdim=True), self.p["tint"])  # (B, 3)
        return base * tint[..., None, None] * mottled

    def _shade(self, distance: Tensor, ra: Tensor, rb: Tensor) -> Tensor:
        """Computes the light on the dome `(B, S, S)`, Lambert plus ambient; stores the highlight in `_highlight`."""
        p = {k: v[:, None, None] for k, v in self.p.items() if v.dim() == 1}
        dome = (1 - distance.clamp(0, 1) ** p["profile"]).clamp_min(1e-4).sqrt() * p["height"]
        padded = F.pad(dome[:, None], (1, 1, 1, 1), mode="replicate")[:, 0]
        slope_x = (padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]) * self.side / 4 * ra
        slope_y = (padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]) * self.side / 4 * rb
        normal = F.normalize(torch.stack([-slope_x, -slope_y, torch.ones_like(slope_x)], 1), dim=1)
        sideways = self.p["tilt"].sin()
        light = torch.stack(
            [self.p["light"].cos() * sideways, self.p["light"].sin() * sideways, self.p["tilt"].cos()], 1
        )[..., None, None]
        half = F.normalize(light + torch.eye(3, device=self.device)[2].view(1, 3, 1, 1), dim=1)
        facing = ((normal + self._noise("bumps")) * half).sum(1).clamp(0, 1)
        # Real highlights are broken up by wet spots, whereas a flat top would shine all over.
        wet = self._noise("fine")[:, 0].clamp(0, 1)
        self._highlight = facing ** p["gloss"] * p["shine"] * wet * 1.5
        lambert = (normal * light).sum(1).clamp_min(0)
        return (p["ambient"] + (1 - p["ambient"]) * lambert) * p["exposure"]

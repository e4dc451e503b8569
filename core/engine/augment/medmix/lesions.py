"""All that is random about a batch's lesions, drawn at once on the CPU in a fixed order.

The draws are even numbers in [0, 1) whose layout does not depend on the settings: with the same seed a lesion stays
where and what it is while a setting moves (a slider on the page), and CPU and GPU get the same lesions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from core.engine.augment.colour import PLAIN, jitter_factors
from core.engine.augment.medmix.settings import BLENDS, DONORS, SHAPES, MedMixConfig
from core.engine.augment.medmix.shapes import HARMONICS, outline
from core.engine.augment.placement import CANDIDATES, Room, place, place_all, sides

POINTS = 16  # control points drawn, of which the first few are used
OTHER, SAME, HERE, TEXTURE, FOREIGN = range(len(DONORS))


@dataclass
class Lesions:
    """Parameters of L lesions; every field has L rows. Boxes are y0, x0, h, w in pixels (long)."""

    image: Tensor  # (L,) which image of the batch it is pasted into
    slot: Tensor  # (L,) its number in that image
    box: Tensor  # (L, 4) where it is pasted
    source: Tensor  # (L, 4) where it is cut
    donor: Tensor  # (L,) from which image
    kind: Tensor  # (L,) index into DONORS
    shape: Tensor  # (L,) index into SHAPES
    blend: Tensor  # (L,) index into BLENDS
    waves: Tensor  # (L, 2, HARMONICS) of the outline
    softness: Tensor  # (L,)
    opacity: Tensor  # (L,)
    factors: Tensor  # (L, 4) brightness, contrast, saturation, hue; 1, 1, 1, 0 where there is no jitter
    order: Tensor  # (L, 4) of the four
    noise: Tensor  # (L,) standard deviation; 0 for none
    seed: Tensor  # (L,) of noise and texture
    points: Tensor  # (L, c, 2) control points (v, u) in -1..1
    fisheye: Tensor  # (L, c) magnification; 0 for none
    lengths: Tensor  # (L, c) wavelengths
    wave: Tensor  # (L,) amplitude; 0 for none
    bulge: Tensor  # (L,)
    shading: Tensor  # (L,)
    angle: Tensor  # (L,) of the light
    contrast: Tensor  # (L,) of a drawn texture
    match: Tensor  # (L,) how far its mean colour is brought to that of its place
    mono: Tensor  # (L,) bool, one noise for the three channels
    tone: Tensor  # (L, 4) made-up modality: order of channels (3 draws), inverted or not

    def __len__(self) -> int:
        return len(self.image)

    def pick(self, rows: Tensor) -> Lesions:
        return Lesions(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def to(self, device: torch.device) -> Lesions:
        if device.type == "cpu":
            return self
        return Lesions(**{f.name: getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)})


def draw_lesions(
    config: MedMixConfig,
    counts: Tensor,
    side: int,
    generator: torch.Generator,
    roi: Tensor | None = None,
    pool: int = 0,
    pool_roi: Tensor | None = None,
) -> Lesions:
    """counts long (B,): lesions per image. side: pixels. roi (B, S, S). pool: how many foreign images there are.

    pool_roi (pool, S, S): their regions of interest.
    """
    b, k = len(counts), config.k
    room = Room(roi, side)
    spots = torch.rand(b, k, CANDIDATES, 2, generator=generator)
    cuts = torch.rand(b, k, CANDIDATES, 2, generator=generator)
    u = torch.rand(b, k, 40 + 2 * HARMONICS, generator=generator)
    points = torch.rand(b, k, POINTS, 4, generator=generator)
    seed = torch.randint(2**31 - 1, (b, k), generator=generator)

    lengths = sides(u[..., 0:2], config.size, config.aspect, side)
    boxes = place_all(counts, spots, lengths, room, config.inside, config.avoid_overlap)
    image, slot = torch.nonzero(torch.arange(k)[None] < counts[:, None], as_tuple=True)
    u, box, cuts, points, seed = (t[image, slot] for t in (u, boxes, cuts, points, seed))
    kind = _choose(u[:, 2], config.choices("donor", DONORS))
    step = 1 + (u[:, 3] * (b - 1)).long().clamp_(max=max(b - 2, 0))
    donor = torch.where((kind == OTHER) | (kind == FOREIGN), (image + step) % b, image)
    foreign = (kind == FOREIGN) & (pool > 0)
    donor = torch.where(foreign, (u[:, 3] * pool).long(), donor)
    scaled = (box[:, 2:] * _between(u[:, 4, None], config.donor_scale)).round().clamp_(2, side)
    away = torch.where((kind == SAME)[:, None], box, 0)[:, None]
    cut = place(donor.clamp(max=b - 1), cuts, scaled, room, config.inside, away, shrink=False)
    if bool(foreign.any()):
        elsewhere = Room(pool_roi, side)
        cut[foreign] = place(donor[foreign], cuts[foreign], scaled[foreign], elsewhere, config.inside, shrink=False)
    start = (box[:, :2] + (box[:, 2:] - scaled) / 2).round().long()
    start = torch.minimum(start.clamp_(min=0), side - scaled.long())
    cut = torch.where((kind == HERE)[:, None], torch.cat([start, scaled.long()], 1), cut)

    c = config.control_points
    blend = _choose(u[:, 5], config.choices("blend", BLENDS))
    on = [u[:, 6 + i] < p for i, p in enumerate((config.p_jitter, config.p_noise, config.p_fisheye, config.p_wave))]
    return Lesions(
        image=image,
        slot=slot,
        box=box,
        source=cut,
        donor=torch.where(kind == TEXTURE, -1, donor),
        kind=kind,
        shape=_choose(u[:, 10], config.choices("shape", SHAPES)),
        blend=blend,
        waves=outline(u[:, 40:], config.irregularity),
        softness=_between(u[:, 11], config.softness),
        opacity=torch.where(blend == BLENDS.index("paste"), 1.0, _between(u[:, 12], config.opacity)),
        factors=torch.where(on[0][:, None], jitter_factors(u[:, 13:17], config.jitter), PLAIN),
        order=u[:, 17:21].argsort(1),
        noise=torch.where(on[1], _between(u[:, 21], config.noise), 0.0),
        seed=seed,
        points=1.6 * points[:, :c, :2] - 0.8,
        fisheye=torch.where(on[2][:, None], _between(points[:, :c, 2], config.fisheye), 0.0),
        lengths=0.5 + points[:, :c, 3],
        wave=torch.where(on[3], _between(u[:, 22], config.wave), 0.0),
        bulge=_between(u[:, 23], config.bulge),
        shading=_between(u[:, 24], config.shading),
        angle=2 * math.pi * u[:, 25],
        contrast=_between(u[:, 26], config.contrast),
        match=_between(u[:, 31], config.match),
        mono=torch.full((len(u),), not config.noise_colour),
        tone=u[:, 27:31],
    )


def _between(u: Tensor, ends: tuple[float, float]) -> Tensor:
    return ends[0] + u * (ends[1] - ends[0])


def _choose(u: Tensor, among: list[int]) -> Tensor:
    return torch.tensor(among)[(u * len(among)).long().clamp_(max=len(among) - 1)]

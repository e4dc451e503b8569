"""All that is random about a batch's lesions, drawn at once on the CPU in a fixed order.

`Draws` are uniform numbers in [0, 1), one named field for each decision; their layout does not depend on the settings.
So with the same seed a lesion stays where and what it is while a setting moves (a slider on the page), and CPU and GPU
get the same lesions. `read_draws` says what the numbers mean under a configuration: `Lesions`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from core.engine.augment.colour import PLAIN, colour_map, jitter_factors
from core.engine.augment.config import BLENDS, DONORS, MedMixConfig
from core.engine.augment.medmix.appearance import HARMONICS, outline
from core.engine.augment.medmix.donors import MATCH
from core.engine.augment.medmix.groups import Lesions
from core.engine.augment.placement import CANDIDATES, LEAST, RoiSampler, place, place_all, sides

POINTS = 16  # control points drawn, of which the first few are used
OTHER, SAME, HERE, TEXTURE, FOREIGN, MARKED = range(len(DONORS))


def _width(numbers: int) -> Tensor:
    """A field of `Draws` of so many numbers a lesion."""
    declared: Tensor = field(metadata={"width": numbers})
    return declared


@dataclass
class Draws:
    """Uniform random numbers in [0, 1) for k lesions in each of T images: (T, k) or (T, k, width)."""

    place: Tensor  # (T, k, CANDIDATES, 2) where it is pasted
    cut_place: Tensor  # (T, k, CANDIDATES, 2) where it is cut
    points: Tensor  # (T, k, POINTS, 4) control points: row, column, strength of the lens, length of the wave
    seed: Tensor  # (T, k) long, of noise and texture
    size: Tensor = _width(2)  # mean side and aspect
    kind: Tensor = _width(1)  # of donor
    donor: Tensor = _width(1)  # which image
    scale: Tensor = _width(1)  # of what is cut to what is pasted
    blend: Tensor = _width(1)
    has_jitter: Tensor = _width(1)
    has_noise: Tensor = _width(1)
    has_fisheye: Tensor = _width(1)
    has_wave: Tensor = _width(1)
    shape: Tensor = _width(1)
    softness: Tensor = _width(1)
    opacity: Tensor = _width(1)
    jitter: Tensor = _width(4)  # brightness, contrast, saturation, hue
    jitter_order: Tensor = _width(4)  # ranks of the four
    noise: Tensor = _width(1)
    wave: Tensor = _width(1)
    bulge: Tensor = _width(1)
    shading: Tensor = _width(1)
    light: Tensor = _width(1)  # angle of the light that shades
    contrast: Tensor = _width(1)  # of a drawn texture
    tone: Tensor = _width(4)  # of a made-up modality
    match: Tensor = _width(1)
    spare: Tensor = _width(8)  # not used, so that a new setting need not move those after it
    outline: Tensor = _width(2 * HARMONICS)

    @classmethod
    def draw(cls, images: int, k: int, generator: torch.Generator) -> Draws:
        """Draws the numbers of `images` images, in a few large draws."""
        positions = torch.rand(images, k, CANDIDATES, 2, generator=generator)
        cut_place = torch.rand(images, k, CANDIDATES, 2, generator=generator)
        widths = {f.name: f.metadata["width"] for f in fields(cls) if f.metadata}
        even = torch.rand(images, k, sum(widths.values()), generator=generator)
        uniforms = torch.split(even, list(widths.values()), -1)
        named = {n: p[..., 0] if w == 1 else p for (n, w), p in zip(widths.items(), uniforms, strict=True)}
        points = torch.rand(images, k, POINTS, 4, generator=generator)
        seed = torch.randint(2**31 - 1, (images, k), generator=generator)
        return cls(positions, cut_place, points, seed, **named)

    @staticmethod
    def stack(several: Sequence[Draws]) -> Draws:
        """Joins n Draws of T images each, those of image i one after another: (T n, k, ...)."""
        return Draws(
            **{f.name: torch.stack([getattr(d, f.name) for d in several], 1).flatten(0, 1) for f in fields(Draws)}
        )

    def pick(self, *rows: Tensor) -> Draws:
        """Returns the numbers at (image, slot), (L,) or (L, width), or those of whole images."""
        return Draws(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


def read_draws(
    draws: Draws,
    config: MedMixConfig,
    image: Tensor,
    counts: Tensor,
    batch: int,
    side: int,
    roi: Tensor | None = None,
    pool: int = 0,
    pool_roi: Tensor | None = None,
    marked: Tensor | None = None,
) -> Lesions:
    """Reads draws as the lesions of T images, on the CPU: in the order of their slots, in each slot the largest first.

    image (T,): which of the batch's images each of the T is made from; counts long (T,): its lesions.
    batch, side: images in the batch, and their side in pixels; roi (batch, side, side), 1 inside.
    pool: how many images of another study there are; pool_roi (pool, side, side): their regions of interest.
    marked: boxes (M, 4) of the lesions that readers marked; they are pasted at their own size.
    """
    sampler = RoiSampler(roi, side)
    least = max(LEAST, math.ceil(2.6 * config.shown[1] ** 0.5))  # about half of an outline's pixels show
    lengths = sides(draws.size, config.size, config.aspect, side, config.even_ratio, least)
    kinds = _choose(draws.kind, config.choices("donor"))
    if marked is None or not len(marked):
        kinds = torch.where(kinds == MARKED, OTHER, kinds)
    else:
        marked_size = marked[(draws.donor * len(marked)).long(), 2:].to(lengths.dtype)
        lengths = torch.where((kinds == MARKED)[..., None], marked_size, lengths)
    boxes = place_all(image, counts, draws.place, lengths, sampler, config.inside, config.avoid_overlap, least)
    target, slot = torch.nonzero(torch.arange(config.k) < counts[:, None], as_tuple=True)
    largest_first = (slot * (side + 1) - boxes[target, slot, 2:].amax(1)).argsort(stable=True)
    target, slot = target[largest_first], slot[largest_first]
    u, box, image = draws.pick(target, slot), boxes[target, slot], image[target]
    kind = kinds[target, slot]
    donor, source = _sources(u, config, kind, image, box, batch, sampler, pool, pool_roi)
    by_readers = kind == MARKED
    if marked is not None and len(marked):
        donor = torch.where(by_readers, (u.donor * len(marked)).long(), donor)
        source = torch.where(by_readers[:, None], marked[donor.clamp(max=len(marked) - 1)], source)

    c = config.control_points
    blend = _choose(u.blend, config.choices("blend"))
    jitter = torch.where(u.has_jitter[:, None] < config.p_jitter, jitter_factors(u.jitter, config.jitter), PLAIN)
    order = u.jitter_order.argsort(1)
    colour, towards_mean = colour_map(jitter, order)
    lens = _between(u.points[:, :c, 2], config.fisheye)
    return Lesions(
        target=target,
        image=image,
        slot=slot,
        box=box,
        source=source,
        donor=donor,
        kind=kind,
        shape=_choose(u.shape, config.choices("shape")),
        blend=blend,
        outline=outline(u.outline, config.irregularity),
        softness=_between(u.softness, config.softness),
        opacity=torch.where(blend == BLENDS.index("paste"), 1.0, _between(u.opacity, config.opacity)),
        jitter=jitter,
        jitter_order=order,
        colour=colour,
        towards_mean=towards_mean,
        noise=torch.where(u.has_noise < config.p_noise, _between(u.noise, config.noise), 0.0),
        seed=u.seed,
        points=1.6 * u.points[:, :c, :2] - 0.8,
        fisheye=torch.where(u.has_fisheye[:, None] < config.p_fisheye, lens, 0.0),
        lengths=0.5 + u.points[:, :c, 3],
        wave=torch.where(u.has_wave < config.p_wave, _between(u.wave, config.wave), 0.0),
        # A real lesion has its own form and light.
        bulge=torch.where(by_readers, 0.0, _between(u.bulge, config.bulge)),
        shading=torch.where(by_readers, 0.0, _between(u.shading, config.shading)),
        light=2 * math.pi * u.light,
        contrast=_between(u.contrast, config.contrast),
        match=torch.where(by_readers, _between(u.match, MATCH), _between(u.match, config.match)),
        mono=torch.full((len(target),), not config.noise_colour),
        tone=u.tone,
    )


def _sources(
    u: Draws,
    config: MedMixConfig,
    kind: Tensor,
    image: Tensor,
    box: Tensor,
    batch: int,
    sampler: RoiSampler,
    pool: int,
    pool_roi: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """What each of L lesions is cut from: donor (L,), -1 for none, and box (L, 4) in it as y0, x0, h, w."""
    side = sampler.side
    step = 1 + (u.donor * (batch - 1)).long().clamp_(max=max(batch - 2, 0))
    donor = torch.where((kind == OTHER) | (kind == FOREIGN), (image + step) % batch, image)
    hw = (box[:, 2:] * _between(u.scale[:, None], config.donor_scale)).round().clamp_(2, side)
    from_same = kind == SAME
    away = torch.where(from_same[:, None], box, 0)[:, None] if bool(from_same.any()) else None
    source = place(donor, u.cut_place, hw, sampler, config.inside, away)
    foreign = torch.nonzero((kind == FOREIGN) & (pool > 0))[:, 0]
    if len(foreign):
        donor[foreign] = (u.donor[foreign] * pool).long()
        elsewhere = RoiSampler(pool_roi, side)
        source[foreign] = place(donor[foreign], u.cut_place[foreign], hw[foreign], elsewhere, config.inside)
    corner = (box[:, :2] + (box[:, 2:] - hw) / 2).round().clamp_(min=0)
    in_place = torch.cat([torch.minimum(corner, side - hw), hw], 1).long()
    source = torch.where((kind == HERE)[:, None], in_place, source)
    return torch.where(kind == TEXTURE, -1, donor), source


def _between(u: Tensor, ends: tuple[float, float]) -> Tensor:
    return ends[0] + u * (ends[1] - ends[0])


def _choose(u: Tensor, among: list[int]) -> Tensor:
    return torch.tensor(among)[(u * len(among)).long().clamp_(max=len(among) - 1)]

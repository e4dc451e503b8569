"""Random numbers for all lesions of a batch, drawn at once on the CPU in a fixed order.

`Draws` holds uniform numbers in [0, 1), with one named field per decision, in a layout that does not depend on the
settings. With the same seed, a lesion therefore keeps its place and kind while a setting is changed, and CPU and GPU
produce the same lesions. `read_draws` converts the numbers to `Lesions` for a configuration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from core.engine.augment.colour import PLAIN, jitter_factors
from core.engine.augment.config import BLENDS, DONORS, MedMixConfig
from core.engine.augment.medmix.appearance import HARMONICS, outline
from core.engine.augment.medmix.donors import MATCH
from core.engine.augment.medmix.groups import Lesions
from core.engine.augment.placement import CANDIDATES, LEAST, RoiSampler, layers, place, place_all, sides

POINTS = 16  # number of control points drawn; the first few are used
OTHER, SAME, HERE, TEXTURE, FOREIGN, MARKED = range(len(DONORS))

# Random numbers of a lesion, in this order: name and number of draws.
WIDTHS = {
    "size": 2,  # mean side and aspect
    "kind": 1,  # kind of donor
    "donor": 1,  # index of the donor image
    "scale": 1,  # size of the cut box relative to the pasted box
    "blend": 1,
    "has_jitter": 1,
    "has_noise": 1,
    "has_fisheye": 1,
    "has_wave": 1,
    "shape": 1,
    "softness": 1,
    "opacity": 1,
    "jitter": 4,  # brightness, contrast, saturation, hue
    "spare": 4,  # not used; a new setting can take these draws without moving the ones below
    "noise": 1,
    "wave": 1,
    "bulge": 1,
    "shading": 1,
    "light": 1,  # angle of the light used for shading
    "contrast": 1,  # contrast of a drawn texture
    "tone": 4,  # order and inversion of channels for an imitated modality
    "match": 1,
    "more": 8,  # not used
    "outline": 2 * HARMONICS,
}
_ENDS = np.cumsum([0, *WIDTHS.values()]).tolist()
_COLUMNS = {
    name: start if width == 1 else slice(start, start + width)
    for (name, width), start in zip(WIDTHS.items(), _ENDS, strict=False)
}


@dataclass
class Draws:
    """Uniform random numbers in [0, 1) for k lesions in each of T images. Each name in WIDTHS is an attribute, too."""

    paste_place: np.ndarray  # (T, k, CANDIDATES, 2) candidates for the place of pasting
    cut_place: np.ndarray  # (T, k, CANDIDATES, 2) candidates for the place of cutting
    points: np.ndarray  # (T, k, POINTS, 4) control points: row, column, strength of the lens, length of the wave
    seed: np.ndarray  # (T, k) int64, seed of noise and texture
    even: np.ndarray  # (T, k, W) the numbers of WIDTHS, one after another

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in _COLUMNS:
            raise AttributeError(name)
        numbers: np.ndarray = self.even[..., _COLUMNS[name]]
        return numbers

    @classmethod
    def draw(cls, images: int, k: int, generator: torch.Generator) -> Draws:
        """Draws the numbers for `k` lesions in each of `images` images."""
        shapes = (CANDIDATES, 2), (CANDIDATES, 2), (_ENDS[-1],), (POINTS, 4)
        paste_place, cut_place, even, points = (torch.rand(images, k, *s, generator=generator).numpy() for s in shapes)
        seed = torch.randint(2**31 - 1, (images, k), generator=generator).numpy()
        return cls(paste_place, cut_place, points, seed, even)

    @staticmethod
    def stack(several: Sequence[Draws]) -> Draws:
        """Combines n Draws for the same T images into one Draws for T n images, ordered by image."""
        joined = {f.name: np.stack([getattr(d, f.name) for d in several], 1) for f in fields(Draws)}
        return Draws(**{name: numbers.reshape(-1, *numbers.shape[2:]) for name, numbers in joined.items()})

    def pick(self, *rows: np.ndarray) -> Draws:
        """Returns the numbers of L lesions, given by image and slot `(L,)`, or of all lesions in the given images."""
        return Draws(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


def read_draws(
    draws: Draws,
    config: MedMixConfig,
    image: np.ndarray,
    counts: np.ndarray,
    batch: int,
    side: int,
    roi: Tensor | None = None,
    pool: int = 0,
    pool_roi: Tensor | None = None,
    marked: np.ndarray | None = None,
) -> Lesions[np.ndarray]:
    """Converts draws to the lesions of T images, on the CPU, sorted by layer, then in order of decreasing size.

    Args:
        image: Index in the batch of the input image of each output `(T,)`.
        counts: Number of lesions in each output `(T,)`.
        batch: Number of images in the batch.
        side: Side length of the images in pixels.
        roi: Regions of interest of the batch `(batch, side, side)`, 1 inside, or None.
        pool: Number of images from another study that lesions can be cut from.
        pool_roi: Regions of interest of the images from the other study `(pool, side, side)`, or None.
        marked: Boxes (y0, x0, h, w) of annotated lesions `(M, 4)`, which are pasted at their original size, or None.
    """
    sampler, real = RoiSampler(roi, side), marked if marked is not None and len(marked) else None
    least = max(LEAST, math.ceil(2.6 * config.shown[1] ** 0.5))  # half of an outline's pixels are visible
    lengths = sides(draws.size, config.size, config.aspect, side, config.even_ratio, least)
    kinds = _choose(draws.kind, config.choices("donor"))
    if real is None:
        kinds = np.where(kinds == MARKED, OTHER, kinds)
    else:
        lengths = np.where((kinds == MARKED)[..., None], real[_index(draws.donor, len(real)), 2:], lengths)
    boxes = place_all(image, counts, draws.paste_place, lengths, sampler, config.inside, config.avoid_overlap, least)
    target, slot = np.nonzero(np.arange(config.k) < counts[:, None])
    layer = layers(boxes)[target, slot]
    order = (layer * (side + 1) - boxes[target, slot, 2:].max(1)).argsort(kind="stable")
    target, slot, layer = target[order], slot[order], layer[order]
    u, box, image, kind = draws.pick(target, slot), boxes[target, slot], image[target], kinds[target, slot]
    donor, source = _sources(u, config, kind, image, box, batch, sampler, pool, pool_roi)
    by_readers = kind == MARKED
    if real is not None:
        donor = np.where(by_readers, _index(u.donor, len(real)), donor)
        source = np.where(by_readers[:, None], real[donor.clip(max=len(real) - 1)], source)

    def between(name: str, to: tuple[float, float] | None = None) -> np.ndarray:
        return _between(getattr(u, name), getattr(config, name) if to is None else to)

    c, blend = config.control_points, _choose(u.blend, config.choices("blend"))
    return Lesions(
        target=target,
        image=image,
        slot=slot,
        layer=layer,
        box=box,
        source=source,
        donor=donor,
        kind=kind,
        shape=_choose(u.shape, config.choices("shape")),
        blend=blend,
        outline=outline(u.outline, config.irregularity),
        softness=between("softness"),
        opacity=np.where(blend == BLENDS.index("paste"), np.float32(1), between("opacity")),
        jitter=np.where(u.has_jitter[:, None] < config.p_jitter, jitter_factors(u.jitter, config.jitter), PLAIN),
        noise=between("noise") * (u.has_noise < config.p_noise),
        seed=u.seed,
        points=1.6 * u.points[:, :c, :2] - 0.8,
        fisheye=_between(u.points[:, :c, 2], config.fisheye) * (u.has_fisheye < config.p_fisheye)[:, None],
        lengths=0.5 + u.points[:, :c, 3],
        wave=between("wave") * (u.has_wave < config.p_wave),
        # A real lesion has its own form and light.
        bulge=between("bulge") * ~by_readers,
        shading=between("shading") * ~by_readers,
        light=2 * math.pi * u.light,
        contrast=between("contrast"),
        match=np.where(by_readers, between("match", MATCH), between("match")),
        mono=np.full(len(target), not config.noise_colour),
        tone=u.tone,
    )


def _sources(
    u: Draws,
    config: MedMixConfig,
    kind: np.ndarray,
    image: np.ndarray,
    box: np.ndarray,
    batch: int,
    sampler: RoiSampler,
    pool: int,
    pool_roi: Tensor | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the donor's index `(L,)`, -1 for none, and the box (y0, x0, h, w) `(L, 4)` to cut each lesion from."""
    side = sampler.side
    donor = np.where((kind == OTHER) | (kind == FOREIGN), (image + 1 + _index(u.donor, batch - 1)) % batch, image)
    hw = (box[:, 2:] * _between(u.scale[:, None], config.donor_scale)).astype(np.float32).round().clip(2, side)
    from_same = kind == SAME
    away = np.where(from_same[:, None], box, 0)[:, None] if from_same.any() else None
    source = place(donor, u.cut_place, hw, sampler, config.inside, away)
    foreign = np.flatnonzero((kind == FOREIGN) & (pool > 0))
    if len(foreign):
        donor[foreign] = _index(u.donor[foreign], pool)
        elsewhere = RoiSampler(pool_roi, side)
        source[foreign] = place(donor[foreign], u.cut_place[foreign], hw[foreign], elsewhere, config.inside)
    corner = (box[:, :2] + (box[:, 2:] - hw) / 2).round().clip(0)
    in_place = np.concatenate([np.minimum(corner, side - hw), hw], 1).astype(int)
    source = np.where((kind == HERE)[:, None], in_place, source)
    return np.where(kind == TEXTURE, -1, donor), source


def _between(u: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    return ends[0] + u * (ends[1] - ends[0])


def _index(u: np.ndarray, count: int) -> np.ndarray:
    """Converts uniform draws to integers from 0 to count - 1, or to 0 if `count` is 0."""
    return (u * count).astype(int).clip(0, max(count - 1, 0))


def _choose(u: np.ndarray, among: list[int]) -> np.ndarray:
    return np.array(among)[_index(u, len(among))]

"""MedMix: a normal image becomes one of class A_n by n lesions, cut elsewhere, deformed and put in (Sec. MedMix).

Drawing (`lesions.py`, CPU) and painting (here, on the images' device) are apart, so that the same seed gives the same
lesions anywhere. Lesions are painted slot by slot (later over earlier), many images at once, on small windows.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.colour import PLAIN, apply_colour, colour_map
from core.engine.augment.hashing import hashed_normal
from core.engine.augment.medmix import blending, donors, warps, windows
from core.engine.augment.medmix.lesions import FOREIGN, TEXTURE, Lesions, draw_lesions
from core.engine.augment.medmix.presets import MEDMIX_PRESETS
from core.engine.augment.medmix.settings import BLENDS, MedMixConfig
from core.engine.augment.medmix.shapes import coverage, depth
from core.engine.augment.strong import Mixed, Strong
from core.engine.registry import STRONG

__all__ = ["MEDMIX_PRESETS", "MedMix", "MedMixConfig", "Mixed", "paint"]

FAINT = 1 / 255  # a lesion this thin cannot move a grey level: it is not there
# pixels of windows painted at once: on a CPU what fits a core's cache, elsewhere all
_BUDGET = {"cpu": 2**15}


@STRONG.register("medmix", title="MedMix", section="Sec. MedMix")
class MedMix(Strong):
    """n lesions per image. `pool` (M, 3, S, S) in [0, 1] holds another study's images for the donor `foreign`.

    pool_roi (M, S, S), 1 inside: where in them lesions may be cut.
    """

    Config = MedMixConfig

    def __init__(
        self, config: MedMixConfig | None = None, pool: Tensor | None = None, pool_roi: Tensor | None = None
    ) -> None:
        super().__init__(config)
        self.pool, self.pool_roi = pool, pool_roi

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """x (B, 3, S, S) in [0, 1]; n an int or long (B,), 0..k; roi (B, S, S), 1 inside. A_0 is x, untouched."""
        counts = self.counts(n, x)
        pool = None if self.pool is None else self.pool.to(x.device)
        if pool is not None and pool.shape[-1] != x.shape[-1]:
            raise ValueError(f"the donors' images are {pool.shape[-1]} pixels wide, the batch's {x.shape[-1]}")
        many = 0 if pool is None else len(pool)
        lesions = draw_lesions(self.config, counts, x.shape[-1], generator, roi, many, self.pool_roi)
        mixed = self.blank(x, counts)
        if not len(lesions):
            return mixed
        for name, box in (("boxes", lesions.box), ("sources", lesions.source)):
            corners = torch.cat([box[:, :2], box[:, :2] + box[:, 2:]], 1)
            if name == "sources":
                corners = torch.where((lesions.donor < 0)[:, None], 0, corners)
            getattr(mixed, name)[lesions.image, lesions.slot] = corners.to(x.device)
        beyond = len(x) * ((lesions.kind == FOREIGN) & (many > 0))
        mixed.donors[lesions.image, lesions.slot] = (lesions.donor + beyond).to(x.device)
        roi = None if roi is None else roi.to(x.device)
        mixed.images = x.clone(memory_format=torch.contiguous_format)
        paint(mixed.images, mixed.alpha, x, lesions, roi, pool)
        mixed.masks = mixed.alpha > 0
        return mixed


def paint(images: Tensor, alpha: Tensor, x: Tensor, lesions: Lesions, roi: Tensor | None, pool: Tensor | None) -> None:
    """Put `lesions` (on the CPU) into images (B, 3, S, S) and alpha (B, S, S), in place; donors are read from x."""
    budget = _BUDGET.get(x.device.type, 2**28)
    extent = lesions.box[:, 2:].amax(1)
    for slot in range(int(lesions.slot.max()) + 1):
        rows = torch.nonzero(lesions.slot == slot)[:, 0]
        rows = rows[extent[rows].argsort(descending=True)]  # like sizes together: small windows for small lesions
        while len(rows):
            window = min(x.shape[-1], int(extent[rows[0]]))
            part, rows = rows.tensor_split([max(1, budget // window**2)])
            _paint(images, alpha, x, lesions.pick(part).to(x.device), window, roi, pool)


def _paint(
    images: Tensor, alpha: Tensor, x: Tensor, it: Lesions, window: int, roi: Tensor | None, pool: Tensor | None
) -> None:
    side = x.shape[-1]
    y0, x0, h, w = (it.box[:, i] for i in range(4))
    top, left = windows.corner(y0, window, side), windows.corner(x0, window, side)
    steps = torch.arange(window, device=x.device)
    rows, cols = (top - y0)[:, None] + steps, (left - x0)[:, None] + steps  # (L, window), from the box's corner
    v = (2 * rows + 1) / h[:, None] - 1
    u = (2 * cols + 1) / w[:, None] - 1

    cover = coverage(depth(v, u, it.shape, it.waves), it.softness)
    if roi is not None:
        cover = cover * windows.gather(roi[:, None], it.image, top, left, window)[:, 0].to(cover.dtype)
    within = ((rows >= 0) & (rows < h[:, None]))[:, :, None] & ((cols >= 0) & (cols < w[:, None]))[:, None]
    over = appearance(x, it, v, u, rows, cols, within, pool)

    under = windows.gather(images, it.image, top, left, window)
    joined = it.blend == BLENDS.index("poisson")
    if bool(joined.any()):
        r = torch.nonzero(joined)[:, 0]
        over[r] = blending.poisson(under[r], over[r], cover[r] > 0)
    cover = F.threshold(cover * it.opacity[:, None, None], FAINT, 0.0)
    windows.scatter(images, it.image, top, left, blending.mix(under, over.clamp_(0, 1), cover))
    before = windows.gather(alpha[:, None], it.image, top, left, window)
    windows.scatter(alpha[:, None], it.image, top, left, 1 - (1 - before) * (1 - cover[:, None]))


def appearance(
    x: Tensor, it: Lesions, v: Tensor, u: Tensor, rows: Tensor, cols: Tensor, within: Tensor, pool: Tensor | None
) -> Tensor:
    """What each lesion looks like, (L, 3, H, W), before it is blended in.

    v (L, H), u (L, W): box coordinates; rows, cols: the same in pixels; within (L, H, W): the pixels of the box.
    Geometry first (bulge, fisheye, wave), then the place's colour, colour jitter, shading and noise.
    """
    gv, gu = torch.broadcast_tensors(v[:, :, None], u[:, None, :])
    at = warps.deform(gv, gu, it)
    over = donors.cut(x, it, *at, pool)
    area = within[:, None].to(x.dtype)
    size = area.sum((2, 3)).clamp(min=1)
    if pool is None:
        foreign = torch.nonzero(it.kind == FOREIGN)[:, 0]
        over[foreign] = donors.other_modality(over[foreign], it.tone[foreign])
    drawn = it.kind == TEXTURE
    placed = torch.nonzero(drawn | (it.match > 0))[:, 0]  # those that look at the place they go to
    if len(placed):
        sub, part = it.pick(placed), area[placed]
        under = donors.cut(x, at_home(sub), gv[placed], gu[placed])
        base = (under * part).sum((2, 3)) / size[placed]
        patch = over[placed]
        apart = base - (patch * part).sum((2, 3)) / size[placed]
        patch += (sub.match[:, None] * apart)[:, :, None, None]
        tissue = donors.texture(sub, at[0][placed], at[1][placed], base)
        over[placed] = torch.where(drawn[placed][:, None, None, None], tissue, patch)
    jittered = torch.nonzero((it.factors != PLAIN.to(x.device)).any(1))[:, 0]
    if len(jittered):
        patch = over[jittered]
        means = (patch * area[jittered]).sum((2, 3)) / size[jittered]
        over[jittered] = apply_colour(patch, *colour_map(it.factors[jittered], it.order[jittered]), means)
    lit = torch.nonzero(it.shading > 0)[:, 0]
    if len(lit):
        over[lit] *= warps.shade(gv[lit], gu[lit], it.shading[lit], it.angle[lit])[:, None]
    noisy = torch.nonzero(it.noise > 0)[:, 0]
    if len(noisy):
        grain = hashed_normal(it.seed[noisy], rows[noisy], cols[noisy])
        grain = torch.where(it.mono[noisy][:, None, None, None], grain[:, :1], grain)
        over[noisy] += it.noise[noisy, None, None, None] * grain
    return over


def at_home(it: Lesions) -> Lesions:
    """The same lesions, cut where they are pasted."""
    home = it.pick(torch.arange(len(it), device=it.image.device))
    home.source, home.donor = it.box, it.image
    return home

"""MedMix: turns normal images into class A_n by pasting n lesions that are cut from the minibatch (Sec. MedMix).

    draw    all random numbers, for the whole batch at once, on the CPU (draws.py)
    cut     a patch of another image, deformed by fisheye and wave (appearance.py)
    colour  jitter, as one affine map of RGB, and noise (augment/colour.py)
    place   outline and region of interest: the weight of the lesion in each pixel (appearance.py)
    blend   opaque, translucent or Poisson blending (appearance.py)

L lesions of similar size are painted together, each in a window of W x W pixels that contains its box. The CPU
determines which lesions a step changes, so that this code never waits for the images' device.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.colour import apply_colour, colour_map, grey_images, hashed_normal
from core.engine.augment.config import MEDMIX_PRESETS, MedMixConfig
from core.engine.augment.medmix.appearance import (
    coverage,
    deform,
    depth,
    draw_texture,
    other_modality,
    poisson,
    shade,
    strengthen,
)
from core.engine.augment.medmix.donors import MarkedLesions
from core.engine.augment.medmix.draws import FOREIGN, MARKED, Draws, read_draws
from core.engine.augment.medmix.groups import Group, Lesions, add, groups, read
from core.engine.augment.strong import Mixed, Strong
from core.engine.registry import STRONG
from core.engine.tensors import on_device, to_device

FAINT = 1 / 255  # an alpha up to this value cannot change a grey level and counts as 0
_BUDGET = {"cpu": 2**15}  # window pixels painted at once: on a CPU what fits into a core's cache, elsewhere all


@STRONG.register("medmix", title="MedMix", section="Sec. MedMix")
class MedMix(Strong):
    """MedMix as a strong augmentation, which pastes n lesions for class A_n.

    Args:
        config: Options of MedMix.
        pool: Images of another study `(M, 3, S, S)` in [0, 1], for the donor `foreign`, or None.
        pool_roi: Regions of these images from which lesions may be cut `(M, S, S)`, 1 inside, or None.
        marked: Lesions that readers annotated, for the donor `marked`, or None.
    """

    Config = MedMixConfig
    presets = MEDMIX_PRESETS
    config: MedMixConfig

    def __init__(
        self,
        config: MedMixConfig | None = None,
        pool: Tensor | None = None,
        pool_roi: Tensor | None = None,
        marked: MarkedLesions | None = None,
    ) -> None:
        super().__init__(config)
        self.pool, self.pool_roi, self.marked = pool, pool_roi, marked

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Pastes lesions into images as described by `Strong.__call__`.

        Also raises ValueError if the images of the pool or the annotated images have another size than x.
        """
        counts = self.counts(n, x)
        draws = Draws.draw(len(x), self.k, generator)
        return self._mix(x, torch.arange(len(x)), counts, draws, roi)

    def classes(self, x: Tensor, k: int, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Makes images of all classes A_0 to A_k like `Strong.classes`, but paints all lesions together."""
        several = [Draws.draw(len(x), self.k, generator) for _ in range(k)]
        draws = Draws.stack([several[0], *several])  # A_0 has no lesions, so that its draws are not used
        image, counts = torch.arange(len(x)).repeat_interleave(k + 1), torch.arange(k + 1).repeat(len(x))
        return self._mix(x, image, counts, draws, roi)

    def _mix(self, x: Tensor, image: Tensor, counts: Tensor, draws: Draws, roi: Tensor | None) -> Mixed:
        """Makes T images: number t is x[image[t]] with counts[t] lesions. Arguments other than x are on the CPU."""
        pool = None if self.pool is None else self.pool.to(x.device)
        if pool is not None and pool.shape[-1] != x.shape[-1]:
            raise ValueError(f"the donors' images are {pool.shape[-1]} pixels wide, the batch's {x.shape[-1]}")
        marked = None if self.marked is None else self.marked.to(x.device)
        if marked is not None and marked.alpha.shape[-1] != x.shape[-1]:
            raise ValueError(f"annotated images are {marked.alpha.shape[-1]} pixels wide, the batch's {x.shape[-1]}")
        many = 0 if pool is None else len(pool)
        lesions = read_draws(
            draws, self.config, image.numpy(), counts.numpy(), len(x), x.shape[-1], roi, many, self.pool_roi,
            None if marked is None else marked.boxes.numpy(),
        )  # fmt: skip
        # Annotated images are neither in the batch nor in the pool.
        named = (lesions.donor >= 0) & (lesions.kind != MARKED)
        boxes = self._table(lesions, lesions.box, counts)
        sources = self._table(lesions, lesions.source * named[:, None], counts)
        donors = np.full((len(counts), self.k), -1)
        foreign = (lesions.kind == FOREIGN) & (many > 0)
        donors[lesions.target, lesions.slot] = np.where(named, lesions.donor + len(x) * foreign, -1)
        image, counts, *tables = on_device([image, counts, boxes, sources, donors], x.device)
        mixed = self.blank(x.index_select(0, image).contiguous(), counts)
        mixed.boxes, mixed.sources, mixed.donors = tables
        roi = None if roi is None else to_device(roi, x.device)
        alpha = torch.zeros_like(mixed.images[:, 0])
        paint(mixed.images, alpha, x, lesions, roi, pool, marked, self.config.shown)
        mixed.alpha, mixed.masks = alpha, alpha > 0
        return mixed

    def _table(self, lesions: Lesions[np.ndarray], box: np.ndarray, counts: Tensor) -> np.ndarray:
        """Converts boxes (y0, x0, h, w) `(L, 4)` to (y0, x0, y1, x1) `(T, k, 4)`, 0 where unused."""
        table = np.zeros((len(counts), self.k, 4), np.int64)
        table[lesions.target, lesions.slot] = np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], 1)
        return table


def paint(
    images: Tensor, alpha: Tensor, x: Tensor, lesions: Lesions[np.ndarray], roi: Tensor | None, pool: Tensor | None,
    marked: MarkedLesions | None = None, shown: tuple[float, int] = (0.0, 0),
) -> None:  # fmt: skip
    """Paints lesions into `images` `(T, 3, S, S)` and the lesions' weights `alpha` `(T, S, S)`, in place.

    Args:
        x: Images to cut from `(B, 3, S, S)`.
        lesions: Parameters of the lesions.
        roi: Regions of interest of x `(B, S, S)`, or None.
        pool: Images of another study `(M, 3, S, S)`, or None.
        marked: Lesions that readers annotated, or None.
        shown: Smallest change and area of a visible lesion, see `MedMixConfig.shown`.
    """
    grey = grey_images(x)
    for group in groups(lesions, x.shape[-1], _BUDGET.get(x.device.type, 2**28), x.device):
        pasted = group.lesions
        window = (group.top, group.left, group.window)
        v, u = deform(group)  # (L, W, W)
        patch = appearance(x, group, grey[pasted.image], pool, marked, v, u)  # (L, 3, W, W)
        # place
        cover = coverage(depth(group.v, group.u, pasted.outline, group.shapes), pasted.softness)  # (L, W, W)
        if group.marked is not None and marked is not None:
            cover[group.marked] = own_outline(marked, group, group.marked, v, u)
        if roi is not None:
            cover = cover * read(roi[:, None], pasted.image, *window)[:, 0]
        # blend
        under = read(images, pasted.target, *window)  # (L, 3, W, W)
        if group.poisson is not None:
            r = group.poisson
            patch[r] = poisson(under[r], patch[r], cover[r] > 0)
        cover = F.threshold(cover * pasted.opacity.view(-1, 1, 1), FAINT, 0.0)[:, None]
        patch.clamp_(0, 1)
        if shown[1]:
            clear = strengthen(under, patch, cover, *shown)
            # Annotated lesions are real and stay as they are.
            patch = torch.where((pasted.kind == MARKED).view(-1, 1, 1, 1), patch, clear)
        add(images, pasted.target, group.top, group.left, torch.lerp(under, patch, cover) - under)
        before = read(alpha[:, None], pasted.target, *window)
        add(alpha[:, None], pasted.target, group.top, group.left, cover * (1 - before))
    images.clamp_(0, 1)  # because of rounding errors


def appearance(
    x: Tensor, group: Group, grey: Tensor, pool: Tensor | None, marked: MarkedLesions | None, v: Tensor, u: Tensor
) -> Tensor:
    """Computes the pixels `(L, 3, W, W)` of each lesion of a group before blending.

    Args:
        x: Images to cut from `(B, 3, S, S)`.
        grey: Whether the target image of each lesion is grey, bool `(L,)`.
        pool: Images of another study `(M, 3, S, S)`, or None.
        marked: Lesions that readers annotated, or None.
        v, u: Vertical and horizontal coordinates `(L, W, W)` in the source boxes, see `deform`.
    """
    lesions, r = group.lesions, group.match
    patch = cut(x, pool, marked, group, v, u)  # (L, 3, W, W)
    # Colour is shifted towards the mean colour of the place, then jittered by one affine map for each lesion.
    box = group.inside()[:, None].to(x.dtype)  # (L, 1, W, W)

    def place(r: Tensor | slice) -> Tensor:
        """Computes the mean colours `(R, 3)` of the boxes into which the R lesions with indices r are pasted."""
        return mean(read(x, lesions.image[r], group.top[r], group.left[r], group.window), box[r])

    if r is not None:
        patch[r] += (lesions.match[r, None] * (place(r) - mean(patch[r], box[r])))[:, :, None, None]
    if group.marked is not None and marked is not None:
        r = group.marked
        patch[r] += (lesions.match[r, None] * (place(r) - marked.around[lesions.donor[r]]))[:, :, None, None]
    if group.texture is not None:
        r = group.texture
        patch[r] = draw_texture(lesions.seed[r], lesions.contrast[r], v[r], u[r], place(r))
    patch = apply_colour(patch, *colour_map(lesions.jitter, grey), mean(patch, box))
    # light and noise
    if group.shading is not None:
        r = group.shading
        patch[r] *= shade(group.v[r], group.u[r], lesions.shading[r], lesions.light[r])
    if group.noise is not None:
        r = group.noise
        grain = hashed_normal(lesions.seed[r], group.rows[r], group.cols[r])  # (R, 3, W, W)
        grain = torch.where((lesions.mono | grey)[r].view(-1, 1, 1, 1), grain[:, :1], grain)
        patch[r] += lesions.noise[r].view(-1, 1, 1, 1) * grain
    return patch


def cut(x: Tensor, pool: Tensor | None, marked: MarkedLesions | None, group: Group, v: Tensor, u: Tensor) -> Tensor:
    """Samples the donors' patches `(L, 3, W, W)` bilinearly at coordinates v, u `(L, W, W)` in the source boxes."""
    lesions, crop = group.lesions, group.crop
    top, left, grid = _crops(lesions.source, crop, x.shape[-1], v, u)
    donor = read(x, lesions.donor.clamp(0, len(x) - 1), top, left, crop)  # (L, 3, crop, crop)
    if group.foreign is not None:
        r = group.foreign
        if pool is None:
            donor[r] = other_modality(donor[r], lesions.tone[r])
        else:
            donor[r] = read(pool, lesions.donor[r], top[r], left[r], crop)
    if group.marked is not None and marked is not None:
        r = group.marked
        marked_lesion = marked.image.to(lesions.donor.device)[lesions.donor[r]]
        donor[r] = read(marked.images, marked_lesion, top[r], left[r], crop)
    return F.grid_sample(donor, grid, mode="bilinear", padding_mode="border", align_corners=True)


def own_outline(marked: MarkedLesions, group: Group, r: Tensor | slice, v: Tensor, u: Tensor) -> Tensor:
    """Samples the weights `(R, W, W)` of a group's annotated lesions r at coordinates v, u in their source boxes."""
    lesions, crop = group.lesions.pick(r), group.crop
    top, left, grid = _crops(lesions.source, crop, marked.alpha.shape[-1], v[r], u[r])
    alpha = read(marked.alpha[:, None], lesions.donor, top, left, crop)
    cover = F.grid_sample(alpha, grid, mode="bilinear", padding_mode="border", align_corners=True)[:, 0]
    return cover * group.inside()[r]


def _crops(source: Tensor, crop: int, side: int, v: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the corners `(L,)` of crops that contain source boxes `(L, 4)`, and v, u as a grid in the crops."""
    y0, x0, h, w = source.unbind(1)
    top, left = y0.clamp(max=side - crop), x0.clamp(max=side - crop)
    return top, left, torch.stack([_within(u, x0, w, left, crop), _within(v, y0, h, top, crop)], -1)


def _within(at: Tensor, start: Tensor, length: Tensor, origin: Tensor, crop: int) -> Tensor:
    """Converts box coordinates to grid_sample's coordinates in a crop that begins at `origin`, clamped to the box."""
    start, length, origin = (t.view(-1, 1, 1).to(at.dtype) for t in (start, length, origin))
    pixel = (start + (at + 1) * 0.5 * length - 0.5).clamp(start, start + length - 1)
    return 2 * (pixel - origin) / (crop - 1) - 1


def mean(patch: Tensor, box: Tensor) -> Tensor:
    """Computes the mean colours `(L, 3)` of patches `(L, 3, W, W)` over the pixels of their boxes `(L, 1, W, W)`."""
    return (patch * box).sum((2, 3)) / box.sum((2, 3))

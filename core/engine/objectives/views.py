"""View generation shared by several objectives: classes A_0 to A_k, pairs of neighbouring patches, rotated images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from core.engine.augment.medmix.donors import MarkedLesions
from core.engine.augment.strong import Mixed, Strong
from core.engine.augment.weak import WeakViews
from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig
from core.engine.objectives.base import Objective, Views
from core.engine.objectives.config import PretrainConfig
from core.engine.registry import STRONG
from core.engine.tensors import to_device


def build_strong(config: PretrainConfig) -> Strong:
    """Creates the strong augmentation that `config.strong` names, with the classes A_0 to A_k."""
    strong = STRONG.get(config.strong)
    if config.strong == "medmix":
        return strong(config.medmix.replace(k=config.k))
    return strong(strong.Config.from_dict({**config.strong_options, "k": config.k}))


class ClassViews(Objective):
    """Base class of the objectives that augment every image with all classes A_0 to A_k.

    For each n from 0 to k, every image is strongly augmented once by A_n, and two weak views are made of the result.
    """

    shows_strong = False  # whether strongly augmented images are also used without a weak augmentation

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.strong: Any = build_strong(config)  # a Strong; MedMix has further attributes, such as `pool`
        self.weak = WeakViews(config.weak)

    def cut_from(self, pool: Tensor, roi: Tensor | None = None) -> None:
        self.strong.pool, self.strong.pool_roi = pool, roi

    def paste_marked(self, lesions: MarkedLesions) -> None:
        self.strong.marked = lesions

    def mixed(self, x: Tensor, generator: torch.Generator, roi: Tensor | None) -> tuple[Mixed, Tensor]:
        """Returns the strongly augmented images x^(n), ordered by source image, then by n, and the class n of each."""
        mixed = self.strong.classes(x, self.config.k, generator, roi)
        return mixed, torch.arange(self.classes, device=x.device).repeat(len(mixed.images) // self.classes)

    def _weak(self, mixed: Mixed, generator: torch.Generator, times: int = 1) -> Tensor:
        return self.weak(mixed.images, generator, mixed.boxes if self.config.keep_lesions else None, times)

    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        mixed, labels = self.mixed(x, generator, roi)
        views = self._weak(mixed, generator, 2)  # x^(n,0), then x^(n,1)
        partners = torch.arange(2 * len(labels), device=x.device).roll(len(labels))
        if not self.shows_strong:
            return Views(views, labels.repeat(2), partners)
        return Views(torch.cat([views, mixed.images]), labels.repeat(2), partners, strong=labels)

    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True
    ) -> tuple[Tensor, Tensor]:
        mixed, labels = self.mixed(x, generator, roi)
        return self._weak(mixed, generator) if weak else mixed.images, labels


# The eight neighbours of a patch as (down, right), row by row. The class of a pair in l_pos is an index into the tuple.
NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))

HIDDEN = 128  # hidden width of f_gamma; the paper does not describe its layers
TRIES = 4  # number of pairs that are drawn per image to find one inside the region of interest


def place_head(config: PretrainConfig, encoder: Encoder) -> nn.Sequential:
    """Creates f_gamma, the l_pos head with 8 outputs. Raises BadConfig if two patches do not fit in an image."""
    if config.size < 2 * config.patch:
        raise BadConfig(
            f"two neighbouring patches of {config.patch} pixels do not fit in images of {config.size} pixels; "
            f"use images of at least {2 * config.patch} pixels, or an objective without l_pos such as 'pmsacl'"
        )
    width = encoder.config.dim * (2 if config.pos_on == "pair" else 1)
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(inplace=True), nn.Linear(HIDDEN, len(NEIGHBOURS)))


def draw_corners(
    count: int, side: int, patch: int, jitter: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Draws the positions of pairs of neighbouring patches in square images.

    First the direction is drawn uniformly, then a position at which both patches fit. Finally, each patch is shifted at
    random within the image, so that continuity at the seam does not reveal the direction.

    Args:
        count: Number of pairs.
        side: Side length of the images in pixels.
        patch: Side length of the patches in pixels.
        jitter: Maximum shift of each patch along each axis, in pixels.
        generator: Generator of the random numbers.

    Returns:
        The top left corners of the first and of the second patches, each `(count, 2)` as (row, column), and the
        directions, `(count,)`, as indices into NEIGHBOURS.

    Raises:
        ValueError: If two patches do not fit side by side.
    """
    if side < 2 * patch:
        raise ValueError(
            f"two patches of {patch} pixels do not fit side by side in images of {side}; use at least {2 * patch}"
        )
    directions = torch.randint(len(NEIGHBOURS), (count,), generator=generator)
    offset = torch.tensor(NEIGHBOURS)[directions]
    low, high = (-offset).clamp(min=0) * patch, side - patch - offset.clamp(min=0) * patch
    fraction = torch.rand((count, 2), generator=generator)
    first = low + (fraction * (high - low + 1)).long()
    shifts = torch.randint(-jitter, jitter + 1, (2, count, 2), generator=generator)
    last = side - patch
    return (first + shifts[0]).clamp(0, last), (first + offset * patch + shifts[1]).clamp(0, last), directions


def cut(images: Tensor, corners: Tensor, patch: int) -> Tensor:
    """Cuts one patch out of each image, without resampling.

    Args:
        images: Images, `(B, C, S, S)`.
        corners: Top left corner of each patch, `(B, 2)`, as (row, column) in pixels.
        patch: Side length p of the patches in pixels.

    Returns:
        The patches, `(B, C, p, p)`.
    """
    step = torch.arange(patch, device=images.device)
    corners = to_device(corners, images.device)
    rows, columns = corners[:, :1] + step, corners[:, 1:] + step  # (B, patch) each
    batch = torch.arange(len(images), device=images.device)[:, None, None]
    return images.permute(0, 2, 3, 1)[batch, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def draw_pairs(
    x: Tensor, config: PretrainConfig, generator: torch.Generator, roi: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Cuts a random pair of neighbouring patches out of each image.

    Args:
        x: Images, `(B, 3, S, S)`.
        config: Options of the pre-training, with the patches' side length p and jitter.
        generator: Generator of the random numbers.
        roi: Regions of interest, `(B, S, S)`, or None. Pairs whose first patch is mostly inside are preferred.

    Returns:
        The patches, `(2, B, 3, p, p)`, the first patches' regions of interest, `(B, p, p)` or None, and the directions
        from the first to the second patches, `(B,)`, as indices into NEIGHBOURS.
    """
    patch, tries = config.patch, 1 if roi is None else TRIES
    attempts = [draw_corners(len(x), x.shape[-1], patch, config.pos_jitter, generator) for _ in range(tries)]
    first, second, directions = (torch.stack(t) for t in zip(*attempts, strict=True))  # (tries, B, 2), (tries, B)
    inside, best, rows = None, torch.zeros(len(x), dtype=torch.long), torch.arange(len(x))
    if roi is not None:
        inside = torch.stack([cut(roi[:, None], corners, patch)[:, 0] for corners in first])  # (tries, B, p, p)
        fraction = inside.float().mean((2, 3)).cpu()
        # The first patch that is mostly inside the region is used, or else the patch with the largest fraction inside.
        best = (fraction + (fraction >= 0.5) * torch.arange(tries, 0, -1)[:, None]).argmax(0)
        inside = inside[best, rows]
    patches = torch.stack([cut(x, corners[best, rows], patch) for corners in (first, second)])
    return patches, inside, to_device(directions[best, rows], x.device)


def patches_of(images: Tensor, roi: Tensor | None, patch: int) -> tuple[Tensor, Tensor | None]:
    """Cuts images into adjacent patches and selects those of which at least half lies in the region of interest.

    Args:
        images: Images, `(M, 3, S, S)`.
        roi: Regions of interest, `(M, S, S)`, or None to select all patches.
        patch: Side length p of the patches in pixels.

    Returns:
        The selected patches, `(P, 3, p, p)`, and their regions of interest, `(P, p, p)` or None. If no patch qualifies,
        all patches are returned.
    """
    patches = images.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5).flatten(0, 2)
    if roi is None:
        return patches, None
    inside = roi.unfold(1, patch, patch).unfold(2, patch, patch).flatten(0, 2)
    mostly_inside = inside.float().mean((1, 2)) >= 0.5
    return (patches[mostly_inside], inside[mostly_inside]) if bool(mostly_inside.any()) else (patches, inside)


TURNS = 4  # number of rotations by multiples of 90 degrees


class TurnedViews(Objective):
    """Base class of the objectives that use four copies of each image, rotated by n x 90 degrees, and classify n.

    The weak augmentation is applied before the rotation: if rotated images were mirrored, n = 1 and n = 3 would be
    indistinguishable. The strong augmentation and `k` are not used.
    """

    sides = 2  # number of views of each copy

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.classes = TURNS
        self.weak = WeakViews(config.weak)
        self.classifier = nn.Linear(encoder.features, TURNS)  # on the backbone's features, as in CSI's released code

    def classify(self, h: Tensor, z: Tensor) -> Tensor:
        logits: Tensor = self.classifier(h.float())
        return logits

    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        samples = [self.samples(x, generator, roi) for _ in range(self.sides)]
        images, labels = (torch.cat(values) for values in zip(*samples, strict=True))
        partners = torch.arange(len(images), device=x.device).roll(len(images) // self.sides)
        return Views(images, labels, partners)

    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Returns copies rotated anticlockwise by n x 90 degrees, `(4 B, 3, S, S)`, by image, then n, and their n."""
        copies = x.repeat_interleave(TURNS, 0)
        copies = self.weak(copies, generator) if weak else copies
        grouped = copies.view(len(x), TURNS, *x.shape[1:])
        turned = torch.stack([torch.rot90(grouped[:, n], n, (2, 3)) for n in range(TURNS)], 1)
        return turned.flatten(0, 1), torch.arange(TURNS, device=x.device).repeat(len(x))

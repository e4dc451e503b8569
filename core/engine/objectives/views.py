"""Views for several objectives: classes A_0 to A_k, pairs of neighbouring patches, and rotated images."""

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
    """Builds the strong augmentation that `config.strong` names, for the classes A_0 to A_k."""
    strong = STRONG.get(config.strong)
    if config.strong == "medmix":
        return strong(config.medmix.replace(k=config.k))
    return strong(strong.Config.from_dict({**config.strong_options, "k": config.k}))


class ClassViews(Objective):
    """Base of the objectives that use every image in all classes A_0 to A_k.

    Each image gets one strong augmentation per class n = 0 to k, and each of these gets two weak views (l = 0, 1).
    """

    shows_strong = False  # whether strongly augmented images without a weak view are used, too

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.strong: Any = build_strong(config)  # a Strong; MedMix has a pool too
        self.weak = WeakViews(config.weak)

    def cut_from(self, pool: Tensor, roi: Tensor | None = None) -> None:
        self.strong.pool, self.strong.pool_roi = pool, roi

    def paste_marked(self, lesions: MarkedLesions) -> None:
        self.strong.marked = lesions

    def mixed(self, x: Tensor, generator: torch.Generator, roi: Tensor | None) -> tuple[Mixed, Tensor]:
        """Makes x^(n), n = 0 to k, of each image: B (k+1) images, sorted by image, then class; labels (B (k+1),)."""
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


# l_pos for any objective: pairs of neighbouring patches, and the head f_gamma that predicts their relative position.


# The eight neighbours as (down, right), row by row: the class of a pair is its index in this list.
NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))

HIDDEN = 128  # width of f_gamma, whose layers the paper does not give
TRIES = 4  # pairs drawn per image to find one inside the region of interest


def place_head(config: PretrainConfig, encoder: Encoder) -> nn.Sequential:
    """Builds the head f_gamma of l_pos: Z x Z -> 8 logits. Raises BadConfig if two patches do not fit in an image."""
    if config.size < 2 * config.patch:
        raise BadConfig(
            f"two neighbouring patches of {config.patch} pixels do not fit in images of {config.size}; "
            f"take images of at least {2 * config.patch} pixels, or an objective without l_pos such as 'pmsacl'"
        )
    width = encoder.config.dim * (2 if config.pos_on == "pair" else 1)
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(inplace=True), nn.Linear(HIDDEN, len(NEIGHBOURS)))


def draw_corners(
    count: int, side: int, patch: int, jitter: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Draws the positions of `count` pairs of neighbouring patches in images of `side` x `side` pixels.

    The direction is drawn uniformly, then a position at which both patches fit. Both are then moved by up to `jitter`
    pixels, within the image, so that continuity at the seam does not reveal the direction. Returns the top left corners
    of the first and the second patches, each (count, 2) as (row, column), and the directions (count,) in NEIGHBOURS.
    Raises ValueError if two patches do not fit side by side.
    """
    if side < 2 * patch:
        raise ValueError(f"two patches of {patch} pixels do not fit side by side in images of {side}; use {2 * patch}")
    directions = torch.randint(len(NEIGHBOURS), (count,), generator=generator)
    offset = torch.tensor(NEIGHBOURS)[directions]
    low, high = (-offset).clamp(min=0) * patch, side - patch - offset.clamp(min=0) * patch
    spot = torch.rand((count, 2), generator=generator)
    first = low + (spot * (high - low + 1)).long()
    moves = torch.randint(-jitter, jitter + 1, (2, count, 2), generator=generator)
    last = side - patch
    return (first + moves[0]).clamp(0, last), (first + offset * patch + moves[1]).clamp(0, last), directions


def cut(images: Tensor, corners: Tensor, patch: int) -> Tensor:
    """Cuts one patch from each image, without resampling.

    images: (B, C, S, S). corners: (B, 2), top left, as (row, column) in pixels. Returns (B, C, patch, patch).
    """
    step = torch.arange(patch, device=images.device)
    corners = to_device(corners, images.device)
    rows, columns = corners[:, :1] + step, corners[:, 1:] + step  # (B, patch) each
    batch = torch.arange(len(images), device=images.device)[:, None, None]
    return images.permute(0, 2, 3, 1)[batch, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def draw_pairs(
    x: Tensor, config: PretrainConfig, generator: torch.Generator, roi: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Cuts a random pair of neighbouring patches from each image x (B, 3, S, S), the first if possible inside `roi`.

    Returns patches (2, B, 3, p, p), the first patches' regions of interest (B, p, p) or None, and directions (B,).
    """
    patch, tries = config.patch, 1 if roi is None else TRIES
    attempts = [draw_corners(len(x), x.shape[-1], patch, config.pos_jitter, generator) for _ in range(tries)]
    first, second, directions = (torch.stack(t) for t in zip(*attempts, strict=True))  # (tries, B, 2), (tries, B)
    inside, best, rows = None, torch.zeros(len(x), dtype=torch.long), torch.arange(len(x))
    if roi is not None:
        inside = torch.stack([cut(roi[:, None], spot, patch)[:, 0] for spot in first])  # (tries, B, p, p)
        share = inside.float().mean((2, 3)).cpu()
        # The first patch that is mostly inside the region, or else the patch with the largest share inside.
        best = (share + (share >= 0.5) * torch.arange(tries, 0, -1)[:, None]).argmax(0)
        inside = inside[best, rows]
    patches = torch.stack([cut(x, spots[best, rows], patch) for spots in (first, second)])
    return patches, inside, to_device(directions[best, rows], x.device)


def patches_of(images: Tensor, roi: Tensor | None, patch: int) -> tuple[Tensor, Tensor | None]:
    """Cuts images (M, 3, S, S) into adjacent patches and returns those with at least half their area inside `roi`.

    roi: (M, S, S) or None. Returns patches (P, 3, p, p), all if none is inside, and their regions (P, p, p) or None.
    """
    patches = images.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5).flatten(0, 2)
    if roi is None:
        return patches, None
    inside = roi.unfold(1, patch, patch).unfold(2, patch, patch).flatten(0, 2)
    mostly_inside = inside.float().mean((1, 2)) >= 0.5
    return (patches[mostly_inside], inside[mostly_inside]) if bool(mostly_inside.any()) else (patches, inside)


# Views rotated by multiples of 90 degrees, for Rot-Net, CSI and DROC.


TURNS = 4


class TurnedViews(Objective):
    """Base of the objectives that use four copies of each image, rotated by n x 90 degrees, and classify n.

    The weak augmentation of a copy precedes the rotation, because mirroring a rotated image would make the label
    ambiguous: n = 1 and n = 3 could not be distinguished.
    `k` and the strong augmentation are not used.
    """

    sides = 2  # views of each copy

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.classes = TURNS
        self.weak = WeakViews(config.weak)
        self.classifier = nn.Linear(encoder.features, TURNS)  # on the backbone's features, as CSI was released

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
        """Returns copies rotated by n x 90 degrees anticlockwise, (4 B, 3, S, S), by image, then n; labels n (4 B,)."""
        copies = x.repeat_interleave(TURNS, 0)
        copies = self.weak(copies, generator) if weak else copies
        grouped = copies.view(len(x), TURNS, *x.shape[1:])
        turned = torch.stack([torch.rot90(grouped[:, n], n, (2, 3)) for n in range(TURNS)], 1)
        return turned.flatten(0, 1), torch.arange(TURNS, device=x.device).repeat(len(x))

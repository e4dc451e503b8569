"""Strong augmentations that the paper compares with MedMix (Fig. ablation_transformation)."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.colour import grey_images, hashed_normal
from core.engine.augment.config import spread, strong_classes
from core.engine.augment.placement import draw_boxes, fill, sides
from core.engine.augment.strong import Mixed, Strong
from core.engine.config import Config, option
from core.engine.registry import STRONG
from core.engine.tensors import to_device


@dataclass(frozen=True)
class CutMixConfig(Config):
    """Options of the CutMix augmentation."""

    k: int = strong_classes()
    area: tuple[float, float] = spread(
        (0.05, 0.5), "Fraction of the image that the n boxes replace together (CutMix's 1 - lambda).", 0.001, 1
    )


@STRONG.register("cutmix", title="CutMix", section="Fig. ablation_transformation")
class CutMix(Strong):
    Config = CutMixConfig
    config: CutMixConfig

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Replaces n boxes in each image by the boxes at the same position in another image of the batch."""
        counts = self.counts(n, x)
        b, side = len(x), x.shape[-1]
        u = torch.rand(b, self.k, 2, generator=generator)
        area = self.config.area[0] + u[:, 0, 0] * (self.config.area[1] - self.config.area[0])
        edge = ((area / counts.clamp(min=1)).sqrt() * side).round().clamp(1, side)
        boxes = draw_boxes(counts, edge[:, None, None].expand(b, self.k, 2).numpy(), side, generator, roi, apart=False)
        donor = (torch.arange(b) + 1 + (u[:, 0, 1] * (b - 1)).long().clamp_(max=max(b - 2, 0))) % b
        mixed = self.blank(x, counts)
        mixed.boxes = to_device(boxes, x.device)
        used = torch.arange(self.k)[None] < counts[:, None]
        mixed.sources = mixed.boxes.clone()
        mixed.donors = to_device(torch.where(used, donor[:, None], -1), x.device)
        mixed.masks = _filled(mixed, roi)
        mixed.images = torch.where(mixed.masks[:, None], x[to_device(donor, x.device)], x)
        mixed.alpha = mixed.masks.to(x.dtype)
        return mixed


def _filled(mixed: Mixed, roi: Tensor | None) -> Tensor:
    """Returns a mask of the pixels in the boxes of each image and in its region of interest, bool `(B, S, S)`."""
    inside = fill(mixed.boxes, mixed.images.shape[-1])
    return inside if roi is None else inside & (to_device(roi, inside.device) > 0)


@dataclass(frozen=True)
class CutoutConfig(Config):
    """Options of the Cutout augmentation (DeVries and Taylor 2017)."""

    k: int = strong_classes()
    size: tuple[float, float] = spread((0.15, 0.3), "Side of a hole, relative to the image's side.", 0.01, 1)
    fill: str = option("mean", "mean is the image's mean colour.", choices=("mean", "black", "grey"))


@STRONG.register("cutout", title="Cutout", section="Fig. ablation_transformation")
class Cutout(Strong):
    Config = CutoutConfig
    config: CutoutConfig

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Fills n squares in each image, which do not overlap, with a single colour."""
        counts = self.counts(n, x)
        side = x.shape[-1]
        lengths = sides(torch.rand(len(x), self.k, 2, generator=generator).numpy(), self.config.size, 1.0, side)
        mixed = self.blank(x, counts)
        mixed.boxes = to_device(draw_boxes(counts, lengths, side, generator, roi, apart=True), x.device)
        mixed.masks = _filled(mixed, roi)
        if self.config.fill == "mean":
            colour = x.mean((2, 3), keepdim=True)
        else:
            colour = x.new_full((1, 1, 1, 1), 0.5 if self.config.fill == "grey" else 0.0)
        mixed.images = torch.where(mixed.masks[:, None], colour, x)
        mixed.alpha = mixed.masks.to(x.dtype)
        return mixed


_CHUNK = {"cpu": 4}  # number of images processed at once


@dataclass(frozen=True)
class NoiseConfig(Config):
    """Options of the Gaussian noise augmentation."""

    k: int = strong_classes()
    sigma: float = option(
        0.06, "Standard deviation in A_1, for pixels from 0 to 1. In A_n it is n times as large.", above=0, high=1
    )


@STRONG.register("noise", title="Gaussian noise", section="Fig. ablation_transformation")
class Noise(Strong):
    Config = NoiseConfig
    config: NoiseConfig

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Adds Gaussian noise to each image, or to its region of interest if given. Grey images stay grey."""
        counts = self.counts(n, x)
        seed = to_device(torch.randint(2**31 - 1, (len(x),), generator=generator), x.device)
        sigma = to_device(counts * self.config.sigma, x.device).to(x.dtype)
        at = torch.arange(x.shape[-1], device=x.device)
        images, grey = x.clone(), to_device(grey_images(x), x.device)
        for rows in torch.split(torch.nonzero(counts > 0)[:, 0], _CHUNK.get(x.device.type, 256)):
            rows = to_device(rows, x.device)
            grain = hashed_normal(seed[rows], at.expand(len(rows), -1), at.expand(len(rows), -1))
            grain = torch.where(grey[rows][:, None, None, None], grain[:, :1], grain)
            if roi is not None:
                grain *= to_device(roi, x.device)[rows, None] > 0
            images[rows] = (x[rows] + sigma[rows, None, None, None] * grain).clamp_(0, 1)
        mixed = self.whole(x, images, counts)
        if roi is not None:
            mixed.masks &= to_device(roi, x.device) > 0
            mixed.alpha *= mixed.masks
        return mixed


@dataclass(frozen=True)
class PermutationConfig(Config):
    """Options of the permutation augmentation, which reorders an image's tiles in a fixed order per class (CCD)."""

    k: int = strong_classes()
    tiles: int = option(2, "Number of rows and of columns of tiles.", low=2, high=3)


@STRONG.register("permutation", title="Permutation", section="Fig. ablation_transformation")
class Permutation(Strong):
    Config = PermutationConfig
    config: PermutationConfig

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Rearranges the tiles of each image in the fixed order of its class; nothing is random.

        If the side length is not a multiple of `tiles`, the remaining rows and columns at the end are left unchanged.
        """
        counts = self.counts(n, x)
        g = self.config.tiles
        edge = x.shape[-1] // g
        if edge == 0:
            raise ValueError(f"an image of {x.shape[-1]} pixels cannot be cut into {g} x {g} tiles")
        orders = to_device(torch.tensor(permutations(g * g, self.k + 1))[counts], x.device)
        inner = x[..., : g * edge, : g * edge]
        tiles = inner.reshape(len(x), 3, g, edge, g, edge).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
        tiles = tiles.gather(1, orders[:, :, None, None, None].expand_as(tiles)).view(len(x), g, g, 3, edge, edge)
        images = x.clone()
        images[..., : g * edge, : g * edge] = tiles.permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)
        return self.whole(x, images, counts)


def permutations(items: int, count: int) -> list[tuple[int, ...]]:
    """Returns `count` permutations, the identity first, each as far as possible (Hamming distance) from all before."""
    chosen = [tuple(range(items))]
    # Nine tiles have 362,880 permutations; every 89th of them gives enough choice.
    among = list(itertools.islice(itertools.permutations(range(items)), 1, None, 89 if items > 4 else 1))
    while len(chosen) < count:
        chosen.append(max(among, key=lambda p: min(sum(a != b for a, b in zip(p, q, strict=True)) for q in chosen)))
    return chosen


@dataclass(frozen=True)
class RotationConfig(Config):
    """Options of the rotation augmentation (Golan and El-Yaniv 2018)."""

    k: int = strong_classes("A_n is rotated anticlockwise by n x 360 / (k + 1) degrees: for k = 3, by quarter turns.")


@STRONG.register("rotation", title="Rotation", section="Fig. ablation_transformation")
class Rotation(Strong):
    Config = RotationConfig
    config: RotationConfig

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Rotates each image by the fixed angle of its class; nothing is random.

        Corners outside the original image are filled by reflection.
        """
        counts = self.counts(n, x)
        images = x.clone()
        for m in sorted(set(counts.tolist()) - {0}):
            rows = to_device(torch.nonzero(counts == m)[:, 0], x.device)
            images[rows] = turned(x[rows], m / (self.k + 1))
        return self.whole(x, images, counts)


def turned(x: Tensor, turns: float) -> Tensor:
    """Rotates images `(B, 3, S, S)` anticlockwise by `turns` full turns, such as 0.25."""
    quarters = turns * 4
    if quarters == round(quarters):
        return torch.rot90(x, round(quarters), (2, 3))
    c, s = math.cos(2 * math.pi * turns), math.sin(2 * math.pi * turns)
    matrix = torch.tensor([[c, -s, 0.0], [s, c, 0.0]], dtype=x.dtype, device=x.device)
    grid = F.affine_grid(matrix.expand(len(x), 2, 3), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)

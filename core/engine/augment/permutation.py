"""Permutation of tiles as the strong augmentation (as in CCD; compared in Fig. ablation_transformation)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from core.engine.augment.config import strong_classes
from core.engine.augment.mixed import Mixed
from core.engine.augment.strong import Strong
from core.engine.config import Config, option
from core.engine.registry import STRONG
from core.engine.tensors import to_device


@dataclass(frozen=True)
class PermutationConfig(Config):
    """Options of permutation: each class has its own fixed order of the tiles."""

    k: int = strong_classes()
    tiles: int = option(2, "The image is cut into tiles x tiles.", low=2, high=3)


@STRONG.register("permutation", title="Permutation", section="Fig. ablation_transformation")
class Permutation(Strong):
    Config = PermutationConfig
    config: PermutationConfig

    def __call__(self, x: Tensor, n: int | Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Mixed:
        """Nothing is drawn: the class is the permutation. Rows and columns beyond a multiple of `tiles` stay."""
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
    """`count` permutations, the identity first, each the farthest (by places that differ) from those before it."""
    chosen = [tuple(range(items))]
    # nine tiles have 362,880 permutations; every 89th is plenty to choose from
    among = list(itertools.islice(itertools.permutations(range(items)), 1, None, 89 if items > 4 else 1))
    while len(chosen) < count:
        chosen.append(max(among, key=lambda p: min(sum(a != b for a, b in zip(p, q, strict=True)) for q in chosen)))
    return chosen

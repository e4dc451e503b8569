"""Training data of an IGD model: whole images or patches, whose random selection depends only on seed and step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from core.engine.backbones.encoder import Encoder
from core.engine.tensors import to_batch, to_device
from core.engine.training.base import ORDER, PATCHES, generator

CACHE = 256 * 2**20  # maximum size in bytes of features that are cached in memory; larger ones go to a file
FILE = "features.npy"
MAPPED = 32 * 2**30  # maximum size in bytes of this file; larger features are not cached


class Items:
    """N whole images, `uint8 (N, S, S, 3)`, or the N * P patches into which `grid` cuts them.

    `flip` is the probability that `take` mirrors an image left to right.
    """

    def __init__(self, images: np.ndarray, grid: Grid | None, device: torch.device, flip: float = 0.0) -> None:
        self.images, self.grid, self.device, self.flip = images, grid, device, flip
        self.patches = len(grid) if grid else 1
        self.features: Tensor | None = None  # (N, P, F) after `cache`

    def __len__(self) -> int:
        return len(self.images)

    def order(self, seed: int, epoch: int) -> Tensor:
        """Returns the indices of all images in the random order of an epoch."""
        return torch.randperm(len(self), generator=generator(seed, ORDER, epoch))

    def take(self, chosen: Tensor, picks: int, seed: int, step: int) -> tuple[Tensor, Tensor | None]:
        """Returns images or patches in [0, 1], `(B * p, 3, s, s)`, and their cached features, `(B * p, F)`, or None.

        Args:
            chosen: Indices of the images, `(B,)`.
            picks: Number p of patches per image, or 0 for all patches. Not used for whole images, for which p is 1.
            seed: Seed of the choice of patches and of mirroring.
            step: Number of the training step.
        """
        x = to_batch(self.images[chosen.numpy()], self.device)
        draws = generator(seed, PATCHES, step)
        order = torch.rand(len(chosen), self.patches, generator=draws)
        if self.flip:
            mirrored = torch.rand(len(chosen), generator=draws) < self.flip
            x = torch.where(to_device(mirrored, x.device)[:, None, None, None], x.flip(3), x)
        if self.grid is None:
            return x, None if self.features is None else self._cached(chosen, torch.zeros_like(chosen))
        x = self.grid.cut(x)
        p = self.patches if picks == 0 else min(picks, self.patches)
        which = order.argsort(1)[:, :p]
        rows = torch.arange(len(chosen), device=x.device)[:, None]
        h = None if self.features is None else self._cached(chosen[:, None], which).flatten(0, 1)
        return x[rows, to_device(which, x.device)].flatten(0, 1), h

    def _cached(self, chosen: Tensor, which: Tensor) -> Tensor:
        """Returns the cached features of the patches `which` of the images `chosen` (indices on the CPU)."""
        assert self.features is not None
        at = (to_device(index, self.features.device) for index in (chosen, which))
        return to_device(self.features[tuple(at)], self.device)

    def all(self, batch: int) -> Iterator[Tensor]:
        """Yields all images or patches in order, `(batch * P, 3, s, s)` at a time."""
        for start in range(0, len(self), batch):
            x = to_batch(self.images[start : start + batch], self.device)
            yield x if self.grid is None else self.grid.cut(x).flatten(0, 1)

    @torch.inference_mode()
    def blocks(self, encoder: Encoder, batch: int) -> Iterator[Tensor]:
        """Yields the backbone features (in eval mode) of all images or patches in order, `(batch * P, F)` at a time."""
        if self.features is not None:
            for features in self.features.split(batch):
                yield features.flatten(0, 1)
            return
        was_training = encoder.training
        encoder.eval()
        for x in self.all(batch):
            yield encoder.backbone(x)
        encoder.train(was_training)

    def cache(self, encoder: Encoder, batch: int, folder: Path | None = None) -> None:
        """Caches a frozen encoder's features in memory or in `folder`, unless they are too large or `flip` is not 0."""
        shape = (len(self), self.patches, encoder.features)
        size = 4 * math.prod(shape)
        if self.flip or size > (CACHE if folder is None else MAPPED):
            return
        if size <= CACHE:
            cache = torch.empty(shape, device=self.device)
        else:
            assert folder is not None
            folder.mkdir(parents=True, exist_ok=True)
            file = np.lib.format.open_memmap(folder / FILE, "w+", np.float32, shape)
            cache = torch.from_numpy(file)
        done = 0
        for h in self.blocks(encoder, batch):
            rows = cache[done : done + len(h) // self.patches]
            rows.copy_(h.view(rows.shape))
            done += len(rows)
        self.features = cache


class Grid:
    """Overlapping patches of `patch` x `patch` pixels, one every `stride` pixels, up to the border of a square image.

    A size of 256, patches of 32 and a stride of 16 give 15 x 15 = 225 patches.
    """

    def __init__(self, size: int, patch: int, stride: int) -> None:
        if patch > size:
            raise ValueError(f"patches of {patch} pixels do not fit an image of {size} pixels")
        self.size, self.patch = size, patch
        starts = list(range(0, size - patch, stride)) + [size - patch]
        self.corners = [(y, x) for y in starts for x in starts]
        inside = torch.arange(patch)[:, None] * size + torch.arange(patch)
        self.index = torch.stack([inside + y * size + x for y, x in self.corners])  # (P, patch, patch), flat pixels

    def __len__(self) -> int:
        return len(self.corners)

    def cut(self, images: Tensor) -> Tensor:
        """Cuts images, `(B, C, S, S)`, into patches, `(B, P, C, patch, patch)`."""
        self.index = index = to_device(self.index, images.device)
        return images.flatten(2)[:, :, index].transpose(1, 2)

    def lay(self, patches: Tensor, overlaps: str = "mean") -> Tensor:
        """Assembles patches, `(B, P, patch, patch)`, into images, `(B, S, S)`, with the `mean` or `sum` of overlaps."""
        index = self.index.to(patches.device).flatten()
        flat = patches.flatten(1)
        total = flat.new_zeros(flat.shape[0], self.size**2).index_add_(1, index, flat)
        if overlaps == "sum":
            return total.view(-1, self.size, self.size)
        covers = flat.new_zeros(self.size**2).index_add_(0, index, torch.ones_like(index, dtype=flat.dtype))
        return (total / covers).view(-1, self.size, self.size)

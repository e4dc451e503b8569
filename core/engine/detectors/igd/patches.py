"""An image as overlapping patches, and patches laid back into an image, overlaps averaged."""

from __future__ import annotations

import torch
from torch import Tensor


class Grid:
    """Patches of `patch` pixels every `stride` in a square of `size`; the last ones end at the border.

    256 pixels, patch 32, stride 16: 15 x 15 = 225 patches.
    """

    def __init__(self, size: int, patch: int, stride: int) -> None:
        if patch > size:
            raise ValueError(f"patches of {patch} pixels do not fit an image of {size}")
        self.size, self.patch = size, patch
        starts = list(range(0, size - patch, stride)) + [size - patch]
        self.corners = [(y, x) for y in starts for x in starts]
        inside = torch.arange(patch)[:, None] * size + torch.arange(patch)
        self.index = torch.stack([inside + y * size + x for y, x in self.corners])  # (P, patch, patch), flat pixels

    def __len__(self) -> int:
        return len(self.corners)

    def cut(self, images: Tensor) -> Tensor:
        """(B, C, S, S) -> (B, P, C, patch, patch)."""
        index = self.index.to(images.device)
        return images.flatten(2)[:, :, index].transpose(1, 2)

    def lay(self, patches: Tensor) -> Tensor:
        """(B, P, patch, patch) -> (B, S, S): at each pixel the mean over the patches that cover it (NaN where none)."""
        index = self.index.to(patches.device).flatten()
        flat = patches.flatten(1)
        total = flat.new_zeros(flat.shape[0], self.size**2).index_add_(1, index, flat)
        covers = flat.new_zeros(self.size**2).index_add_(0, index, torch.ones_like(index, dtype=flat.dtype))
        return (total / covers).view(-1, self.size, self.size)

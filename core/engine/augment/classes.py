"""One image of each class A_0..A_k out of each normal image (the x^(n) of Eq. 4: one strong augmentation per class)."""

from __future__ import annotations

import torch
from torch import Tensor

from core.engine.augment.share import Share
from core.engine.augment.strong import Strong


def make_classes(
    strong: Strong,
    x: Tensor,
    k: int,
    generator: torch.Generator,
    roi: Tensor | None = None,
    share: Share | None = None,
) -> tuple[Tensor, Tensor]:
    """x (B, 3, S, S) -> images (B, k+1, 3, S, S), class n at [:, n], and lesion masks bool (B, k+1, S, S).

    A_0 is x itself. share: which images of x to make classes of; the rest are donors alone.
    Raises ValueError if k is more than `strong` can make.
    """
    if not 1 <= k <= strong.k:
        raise ValueError(f"k must be 1..{strong.k} for this strong augmentation, not {k}; raise its own k first")
    mixed = strong.classes(x, k, generator, roi, share)
    return mixed.images.view(-1, k + 1, *x.shape[1:]), mixed.masks.view(-1, k + 1, *x.shape[2:])

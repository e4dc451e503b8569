"""What a strong augmentation returns."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Mixed:
    """A batch after a strong augmentation. B images, side S, at most k lesions each.

    images: float32 (B, 3, S, S) in [0, 1].
    masks: bool (B, S, S); every pixel that changed is inside. Whole-image augmentations mark the whole image.
    count: long (B,), n of A_n.
    boxes: long (B, k, 4), where each lesion was put: y0, x0, y1, x1 in pixels, y1 and x1 exclusive; 0 where unused.
    sources: long (B, k, 4), the box it was cut from, in image `donors[b, i]`; 0 where it was drawn, not cut.
    donors: long (B, k), index of the donor within the batch; B + j for image j of a pool; -1 where there is none.
    alpha: float32 (B, S, S) in [0, 1], how much of a pixel is lesion; MedMix's `masks` is alpha > 0.
    """

    images: Tensor
    masks: Tensor
    count: Tensor
    boxes: Tensor
    sources: Tensor
    donors: Tensor
    alpha: Tensor

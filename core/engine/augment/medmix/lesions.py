"""The parameters of a batch's lesions: what was drawn, read under a configuration, one row for each lesion."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from core.engine.tensors import to_device


@dataclass
class Lesions:
    """Parameters of L lesions; every field has L rows. Boxes are y0, x0, h, w in pixels (long).

    Coordinates v (down), u (right) within a lesion's box run from -1 to 1.
    """

    target: Tensor  # (L,) which of the images made it is pasted into
    image: Tensor  # (L,) which image of the batch that one is made from
    slot: Tensor  # (L,) its number in the target; a later one covers an earlier one
    box: Tensor  # (L, 4) where it is pasted
    source: Tensor  # (L, 4) where it is cut
    donor: Tensor  # (L,) from which image; -1 for none
    kind: Tensor  # (L,) index into DONORS
    shape: Tensor  # (L,) index into SHAPES
    blend: Tensor  # (L,) index into BLENDS
    outline: Tensor  # (L, 2, HARMONICS) cosine and sine amplitudes of an irregular outline
    softness: Tensor  # (L,)
    opacity: Tensor  # (L,)
    jitter: Tensor  # (L, 4) brightness, contrast, saturation, hue; 1, 1, 1, 0 where there is none
    jitter_order: Tensor  # (L, 4) which of the four comes first, second, ...
    colour: Tensor  # (L, 3, 3) M of the jitter as one map x' = M x + P m, with m the mean colour; see `colour_map`
    towards_mean: Tensor  # (L, 3, 3) P of it
    noise: Tensor  # (L,) standard deviation; 0 for none
    seed: Tensor  # (L,) of noise and texture
    points: Tensor  # (L, c, 2) control points (v, u)
    fisheye: Tensor  # (L, c) magnification; 0 for none
    lengths: Tensor  # (L, c) wavelengths
    wave: Tensor  # (L,) amplitude; 0 for none
    bulge: Tensor  # (L,)
    shading: Tensor  # (L,)
    light: Tensor  # (L,) angle of the light that shades
    contrast: Tensor  # (L,) of a drawn texture
    match: Tensor  # (L,) how far its mean colour is brought to that of its place
    mono: Tensor  # (L,) bool, one noise for the three channels
    tone: Tensor  # (L, 4) made-up modality: order of channels (3 draws), inverted or not

    def __len__(self) -> int:
        return len(self.target)

    def pick(self, rows: Tensor | slice) -> Lesions:
        return Lesions(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def to(self, device: torch.device) -> Lesions:
        return Lesions(**{f.name: to_device(getattr(self, f.name), device) for f in fields(self)})

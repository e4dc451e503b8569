"""Colour jitter (brightness, contrast, saturation, hue, greyscale) as one affine map of RGB per image, and noise.

Each change is affine in the colour, so all of them together are one 3 x 3 matrix and an offset. There are two
differences from torchvision's ColorJitter: values are clamped once at the end, not after each change, and hue rotates
the colour about the grey axis (in YIQ, as in TensorFlow's first `adjust_hue`) rather than in HSV.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from core.engine.tensors import constant

LUMA = (0.299, 0.587, 0.114)
_YIQ = torch.tensor([LUMA, (0.595716, -0.274453, -0.321263), (0.211456, -0.522591, 0.311135)], dtype=torch.float64)
_TURNS = torch.tensor([[1, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, -1, 0, 1, 0]]).double()
# Matrices from RGB to the grey part, the chroma and the chroma rotated by 90 degrees, flattened: (3, 3 * 3).
_BASES = tuple((torch.linalg.inv(_YIQ) @ _TURNS.view(3, 3, 3) @ _YIQ).flatten().tolist())
PLAIN = np.array([1, 1, 1, 0], np.float32)  # factors that change nothing
SATURATION = 2  # index of the saturation among the factors


def jitter_factors(u: np.ndarray, strength: tuple[float, float, float, float]) -> np.ndarray:
    """Converts uniform random numbers u `(..., 4)` in [0, 1) to the factors `(..., 4)` of a colour jitter.

    Brightness, contrast and saturation are within 1 +- strength and at least 0; hue is within +- strength, in turns.
    """
    factors: np.ndarray = PLAIN + (2 * u - 1) * np.array(strength, np.float32)
    factors[..., :3] = factors[..., :3].clip(0)
    return factors


def colour_map(factors: Tensor, grey: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Returns the matrices M `(L, 3, 3)` and weights p `(L,)` of the colour jitter x' = M x + p m.

    Here m is the grey value of the image's mean colour; contrast is scaled around m, as in torchvision. The order of
    the four changes does not matter, because hue and saturation do not change grey, and brightness scales all channels
    alike.

    Args:
        factors: Brightness, contrast, saturation and hue `(L, 4)`; a saturation of 0 gives grey.
        grey: Images to convert to grey, whatever their factors, bool `(L,)`. Defaults to none.
    """
    bright, contrast, saturation, hue = factors.unbind(1)
    gain, angle = bright * contrast, 2 * math.pi * hue
    chroma = gain * (saturation if grey is None else torch.where(grey, 0, saturation))
    bases = constant(_BASES, factors.device, factors.dtype).view(3, 9)
    matrix = torch.stack([gain, chroma * angle.cos(), chroma * angle.sin()], 1) @ bases
    return matrix.view(-1, 3, 3), bright - gain


def apply_colour(x: Tensor, matrix: Tensor, share: Tensor, means: Tensor) -> Tensor:
    """Applies the colour jitter M (`matrix`), p (`share`) of `colour_map` to images x `(L, 3, H, W)`, unclamped.

    `means` `(L, 3)` holds the mean colour of each image.
    """
    offset = share * (means @ constant(LUMA, x.device, x.dtype))
    return torch.baddbmm(offset.view(-1, 1, 1), matrix, x.flatten(2)).view_as(x)


def grey_images(x: Tensor) -> Tensor:
    """Returns for each image `(B, 3, S, S)` whether its three channels are equal in every pixel, bool `(B,)`."""
    if x.device.type == "cpu":  # a few pixels are enough to exclude most colour images
        few = x[:, :, ::16, ::16]
        grey = ((few[:, 0] == few[:, 1]) & (few[:, 0] == few[:, 2])).flatten(1).all(1)
        if not grey.any():
            return grey
    return ((x[:, 0] == x[:, 1]) & (x[:, 0] == x[:, 2])).flatten(1).all(1)


_LOW = 0xFFFFFFFF


def mix(v: Tensor) -> Tensor:
    """Hashes the lower 32 bits of each int64 to a 32-bit number, using the hash function `lowbias32`."""
    v = v & _LOW
    v = ((v ^ (v >> 16)) * 0x7FEB352D) & _LOW
    v = ((v ^ (v >> 15)) * 0x846CA68B) & _LOW
    return v ^ (v >> 16)


def hashed_normal(seed: Tensor, rows: Tensor, cols: Tensor, channels: int = 3) -> Tensor:
    """Computes standard normal noise `(L, channels, H, W)` that depends only on seeds and pixel positions.

    The noise is computed from hashed integers, because torch's generators draw different numbers on GPU and CPU.

    Args:
        seed: Seed of each image, int64 `(L,)` in [0, 2^31).
        rows: Rows of the pixels, int64 `(L, H)`; they may be negative.
        cols: Columns of the pixels, int64 `(L, W)`; they may be negative.
    """
    channel = torch.arange(channels, device=seed.device)
    key = mix(seed[:, None] * 0x9E3779B1 + channel[None] + 1)[:, :, None, None]
    hashed = mix((rows[:, :, None] & 0xFFFF) * 0x10000 + (cols[:, None, :] & 0xFFFF))[:, None]
    first = mix(key ^ hashed)
    second = mix(first + 0x68E31DA4)
    # Box-Muller transform; the offset of 0.5 avoids log(0).
    radius = torch.sqrt(-2 * torch.log((first.to(torch.float32) + 0.5) * 2.0**-32))
    return radius * torch.cos(second.to(torch.float32) * (2 * math.pi * 2.0**-32))

"""Noise that depends only on a seed and a position: the same on every device, in every batch and chunk.

A torch generator on a GPU draws other numbers than one on the CPU; this hashes integers instead.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LOW = 0xFFFFFFFF


def mix(v: Tensor) -> Tensor:
    """Mixes the 32 bits that each int64 holds into 32 well mixed bits (the `lowbias32` finaliser)."""
    v = v & _LOW
    v = ((v ^ (v >> 16)) * 0x7FEB352D) & _LOW
    v = ((v ^ (v >> 15)) * 0x846CA68B) & _LOW
    return v ^ (v >> 16)


def hashed_normal(seed: Tensor, rows: Tensor, cols: Tensor, channels: int = 3) -> Tensor:
    """Computes standard normal noise (L, channels, H, W) from seeds and positions.

    seed int64 (L,) in [0, 2^31); rows int64 (L, H) and cols int64 (L, W): the positions, of either sign.
    """
    channel = torch.arange(channels, device=seed.device)
    key = mix(seed[:, None] * 0x9E3779B1 + channel[None] + 1)[:, :, None, None]
    hashed = mix((rows[:, :, None] & 0xFFFF) * 0x10000 + (cols[:, None, :] & 0xFFFF))[:, None]
    first = mix(key ^ hashed)
    second = mix(first + 0x68E31DA4)
    # Box-Muller; the first is kept off zero
    radius = torch.sqrt(-2 * torch.log((first.to(torch.float32) + 0.5) * 2.0**-32))
    return radius * torch.cos(second.to(torch.float32) * (2 * math.pi * 2.0**-32))

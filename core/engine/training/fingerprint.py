"""What a training depends on, as one short text: images, regions of interest, weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

CHUNK = 64  # images read at once, so that a memory map is never read into memory whole


def fingerprint(*parts: np.ndarray | Mapping[str, Tensor] | None) -> str:
    """Hexadecimal digest over every value of arrays (N, ...) and of weights by name, in the order given.

    SHA-256 takes about 2 s for a gigabyte; two parts of equal bytes but another shape or type differ.
    """
    digest = hashlib.sha256()
    for part in parts:
        if part is None:
            digest.update(b"none")
        elif isinstance(part, Mapping):
            for name, value in sorted(part.items()):
                digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
                digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        else:
            digest.update(f"{part.dtype} {part.shape}".encode())
            for start in range(0, len(part), CHUNK):
                digest.update(np.ascontiguousarray(part[start : start + CHUNK]).data)
    return digest.hexdigest()[:32]

"""Feature maps that are kept while several detectors are compared on the same encoder and images.

    with remembering():
        ...  # fits and scores of any MapDetector

Each detector then costs its own work alone; what it sees is what the encoder would give it.
"""

from __future__ import annotations

import contextlib
import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from core.engine.backbones import weights
from core.engine.backbones.encoder import Encoder

STRIDES = (4, 8, 16, 32)  # all are kept where any is asked for; a map at stride 2 would take as much as these together
LIMIT = 3 << 30  # bytes

Compute = Callable[[np.ndarray, set[int]], dict[int, Tensor]]


class Memory:
    """Maps of single images, those used longest ago forgotten when they take more than `limit` bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.held = limit, 0
        self.kept: OrderedDict[tuple[str, bytes], dict[int, Tensor]] = OrderedDict()
        self.digests: weakref.WeakKeyDictionary[Encoder, str] = weakref.WeakKeyDictionary()

    def maps(self, encoder: Encoder, images: np.ndarray, strides: set[int], compute: Compute) -> dict[int, Tensor]:
        """What `compute(images, strides)` gives for images uint8 (B, S, S, 3), {stride: (B, C, h, w)}."""
        if not strides <= set(STRIDES):
            return compute(images, strides)
        if encoder not in self.digests:
            self.digests[encoder] = weights.digest(encoder.net.state_dict())
        keys = [(self.digests[encoder], hashlib.blake2b(x.tobytes(), digest_size=16).digest()) for x in images]
        found = {i: self.kept[key] for i, key in enumerate(keys) if key in self.kept}
        missing = [i for i in range(len(keys)) if i not in found]
        if missing:
            fresh = compute(np.ascontiguousarray(images[missing]), set(STRIDES))
            for place, i in enumerate(missing):
                found[i] = {s: m[place].clone() for s, m in fresh.items()}
                self._keep(keys[i], found[i])
        for key in keys:
            if key in self.kept:
                self.kept.move_to_end(key)
        return {s: torch.stack([found[i][s] for i in range(len(keys))]) for s in sorted(strides)}

    def _keep(self, key: tuple[str, bytes], maps: dict[int, Tensor]) -> None:
        if key in self.kept:
            return
        self.kept[key] = maps
        self.held += _bytes(maps)
        while self.held > self.limit:
            self.held -= _bytes(self.kept.popitem(last=False)[1])


_memory: Memory | None = None


def memory() -> Memory | None:
    """The memory of the `remembering` that is under way in this process, if any."""
    return _memory


@contextlib.contextmanager
def remembering(limit: int = LIMIT) -> Iterator[Memory]:
    """Keep maps of at most `limit` bytes until the block ends. One at a time in a process."""
    global _memory
    before, _memory = _memory, Memory(limit)
    try:
        yield _memory
    finally:
        _memory = before


def _bytes(maps: dict[int, Tensor]) -> int:
    return sum(m.nbytes for m in maps.values())

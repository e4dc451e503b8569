"""Feature vectors of images for clustering and nearest neighbours, and caches of features.

There are three kinds of vectors (`KINDS`), one per image:
  centred    (f - c_n) / ||f - c_n||, the vector that l_PMSACL compares (Eq. 6)
  projected  f = f_theta(x), 128 values: the output of the projection head
  backbone   the backbone's pooled features (512 for ResNet-18), the input of the head
`metrics/vectors.py` finds neighbours among them without torch. All are float32, as bf16 is too imprecise for distances.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from contextvars import ContextVar
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from core.engine.backbones import weights
from core.engine.backbones.encoder import Encoder
from core.engine.progress import Stopped
from core.engine.tensors import to_batch

KINDS = ("centred", "projected", "backbone")


class Images(Protocol):
    """Images uint8 `(N, S, S, 3)` that can be sliced: an array, a memory map, or images loaded on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: slice, /) -> np.ndarray: ...


@torch.inference_mode()
def encode(
    encoder: Encoder,
    images: Images,
    kind: str = "projected",
    *,
    batch: int = 64,
    device: torch.device | str = "cpu",
    report: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> np.ndarray:
    """Computes the features of images. The encoder is moved to `device` and set to evaluation mode.

    Inside a `caching_features` block, cached features are used instead of encoding an image again.

    Args:
        images: Images, uint8 `(N, S, S, 3)`.
        kind: Kind of features, "projected" or "backbone".
        report: Function called after each batch with the number of finished images and the total number of images.
        should_stop: Function that returns True if the computation must stop.

    Returns:
        Features, float32 `(N, D)`. D is `encoder.config.dim` for "projected" and `encoder.features` for "backbone".

    Raises:
        ValueError: If there are no images or if the kind is invalid.
        Stopped: If `should_stop` returns True.
    """
    if not len(images):
        raise ValueError("there are no images to encode; give at least 1 image")
    if kind not in ("projected", "backbone"):
        raise ValueError(f"the kind of features must be projected or backbone, not {kind!r}")
    reader, features = inference_copy(encoder.to(device).eval()), _features.get()
    out = []
    for start in range(0, len(images), batch):
        if should_stop is not None and should_stop():
            raise Stopped
        pixels = np.asarray(images[start : start + batch])
        if features is None:
            h = Encoder.pool(feature_maps(reader, pixels, {COARSEST}))
        else:
            h = torch.from_numpy(features.of(reader, pixels)).to(reader.mean.device)
        out.append((reader.project(h) if kind == "projected" else h).float().cpu().numpy())
        if report is not None:
            report(start + len(pixels), len(images))
    return np.concatenate(out)


COARSEST = 32  # stride of the feature map that is pooled
PIECE = 300_000  # pixels per pass; a map of 96 channels at stride 2 takes 29 MB, and glibc reuses blocks below 32 MB


def feature_maps(reader: Encoder, images: np.ndarray, strides: set[int]) -> dict[int, Tensor]:
    """Computes the feature maps `(B, C, h, w)`, by stride, of images uint8 `(B, S, S, 3)`.

    `reader` is a result of `inference_copy`. Inside a `caching_features` block, the pooled features are cached. On a
    CPU, few images are processed at a time, because allocating more memory takes as long as the computation.
    """
    device, features = reader.mean.device, _features.get()
    wanted = strides if features is None else strides | {COARSEST}
    count = len(images) if device.type == "cuda" else max(1, PIECE // (images.shape[1] * images.shape[2]))
    pieces = [
        reader.maps(to_batch(np.asarray(images[start : start + count]), device), wanted)
        for start in range(0, len(images), count)
    ]
    maps = pieces[0] if len(pieces) == 1 else {s: torch.cat([piece[s] for piece in pieces]) for s in pieces[0]}
    if features is not None:
        features.keep(reader, images, Encoder.pool(maps).float().cpu().numpy())
    return {s: values for s, values in maps.items() if s in strides}


class Features:
    """Cache of pooled features in float16, keyed by the digests of encoder and image.

    Args:
        most: Largest number of images per encoder whose features are cached.
        images: Digests of the images whose features may be cached. Defaults to all images.
    """

    def __init__(self, most: int, images: Container[bytes] | None = None) -> None:
        self.most, self.images = most, images
        self.kept: dict[str, dict[bytes, np.ndarray]] = {}
        self.added = False
        self._digests: weakref.WeakKeyDictionary[Encoder, str] = weakref.WeakKeyDictionary()

    def of(self, reader: Encoder, images: np.ndarray) -> np.ndarray:
        """Returns the pooled features of images, float32 `(B, F)` rounded to float16. Missing features are computed."""
        keys, stored = [digest(image) for image in images], self.rows(reader)
        rows = {key: stored[key] for key in keys if key in stored}
        missing = [i for i, key in enumerate(keys) if key not in rows]
        if missing:
            fresh = half(Encoder.pool(feature_maps(reader, images[missing], {COARSEST})).float().cpu().numpy())
            rows.update(zip([keys[i] for i in missing], fresh, strict=True))
        return np.stack([rows[key] for key in keys]).astype(np.float32)

    def keep(self, reader: Encoder, images: np.ndarray, values: np.ndarray) -> None:
        """Caches the pooled features `values` `(B, F)` of images uint8 `(B, S, S, 3)`, for at most `most` images."""
        stored = self.rows(reader)
        for key, row in zip(map(digest, images), half(values), strict=True):
            wanted = len(stored) < self.most and (self.images is None or key in self.images)
            if wanted and key not in stored:
                stored[key], self.added = row, True

    def rows(self, reader: Encoder) -> dict[bytes, np.ndarray]:
        """Returns the cached features `(F,)` computed by an encoder, keyed by the digest of the image."""
        if reader not in self._digests:
            self._digests[reader] = weights.digest(reader.net.state_dict())
        return self.kept.setdefault(self._digests[reader], {})


_features: ContextVar[Features | None] = ContextVar("features", default=None)


@contextlib.contextmanager
def caching_features(features: Features) -> Iterator[Features]:
    """Context manager: caches the pooled features of all images encoded in this thread in `features`."""
    token = _features.set(features)
    try:
        yield features
    finally:
        _features.reset(token)


def half(values: np.ndarray) -> np.ndarray:
    """Clips values to the range of float16 and rounds them to float16."""
    most = float(np.finfo(np.float16).max)
    return np.clip(values, -most, most).astype(np.float16)


def digest(image: np.ndarray) -> bytes:
    """Returns a 16-byte digest of an image's pixels."""
    return hashlib.blake2b(image.tobytes(), digest_size=16).digest()


# Folding batch norms into convolutions saves a third of the time: EfficientNet-lite0 at 224 px on one core takes 24 ms
# per image instead of 35 ms; see `bench quick-fit`.
SIDE = 64  # side in pixels of the image with which a copy is traced and checked
CLOSE = 1e-3  # largest allowed relative difference of a feature map; folding changes only the last digits


@torch.inference_mode()
def inference_copy(encoder: Encoder) -> Encoder:
    """Returns a copy of an encoder in evaluation mode that is faster and gives the same maps up to rounding.

    Each batch norm is folded into the convolution before it; a forward pass is traced to find these pairs. If the maps
    of the copy then differ by more than CLOSE, for example because a convolution feeds two layers, an unfolded copy is
    returned. Inside a `remembering` block, each encoder is copied only once.
    """
    cache = memory()
    if cache is not None and encoder in cache.copies:
        return cache.copies[encoder]
    plain = copy.deepcopy(encoder).eval().to(memory_format=torch.channels_last)
    folded = copy.deepcopy(plain)
    probe = torch.rand(1, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)).to(encoder.mean.device)
    pairs = _fed_by_convolutions(folded, probe)
    names = {module: name for name, module in folded.net.named_modules()}
    for conv, norm in pairs:
        if norm.running_mean is None or norm.running_var is None:
            continue
        weight, bias = fuse_conv_bn_weights(
            conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
        )
        conv.weight, conv.bias = weight, bias
        parent, _, leaf = names[norm].rpartition(".")
        # timm's batch norms include the activation that follows.
        setattr(folded.net.get_submodule(parent), leaf, getattr(norm, "act", None) or nn.Identity())
    folded.to(memory_format=torch.channels_last)
    same = _close(plain.maps(probe), folded.maps(probe))
    quick = (folded if same else plain).requires_grad_(False)
    if cache is not None:
        cache.copies[encoder] = quick
    return quick


def _fed_by_convolutions(encoder: Encoder, probe: Tensor) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Returns pairs of a convolution and the batch norm whose input is the output of this convolution."""
    outputs: dict[int, tuple[nn.Conv2d, Tensor]] = {}  # holds the tensors, so that no id is reused
    pairs: list[tuple[nn.Conv2d, nn.BatchNorm2d]] = []

    def after(module: nn.Conv2d, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        outputs[id(output)] = (module, output)

    def before(module: nn.BatchNorm2d, inputs: tuple[Tensor, ...]) -> None:
        if id(inputs[0]) in outputs:
            pairs.append((outputs[id(inputs[0])][0], module))

    hooks = [m.register_forward_hook(after) for m in encoder.net.modules() if isinstance(m, nn.Conv2d)]
    hooks += [m.register_forward_pre_hook(before) for m in encoder.net.modules() if isinstance(m, nn.BatchNorm2d)]
    encoder.maps(probe)
    for hook in hooks:
        hook.remove()
    return pairs


def _close(a: dict[int, Tensor], b: dict[int, Tensor]) -> bool:
    return all(float((a[s] - b[s]).abs().max()) <= CLOSE * float(a[s].abs().max()) for s in a)


STRIDES = (4, 8, 16, 32)  # cached together; a map at stride 2 would take as much memory as all of these
LIMIT = 3 << 30  # default size of the cache in bytes

Compute = Callable[[np.ndarray, set[int]], dict[int, Tensor]]


class Memory:
    """Cache of the feature maps of images. Beyond `limit` bytes, the least recently used maps are dropped."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.held = limit, 0
        self.kept: OrderedDict[tuple[str, bytes], dict[int, Tensor]] = OrderedDict()
        self.copies: weakref.WeakKeyDictionary[Encoder, Encoder] = weakref.WeakKeyDictionary()  # faster copies
        self.digests: weakref.WeakKeyDictionary[Encoder, str] = weakref.WeakKeyDictionary()

    def maps(self, encoder: Encoder, images: np.ndarray, strides: set[int], compute: Compute) -> dict[int, Tensor]:
        """Returns cached or new feature maps `(B, C, h, w)`, by stride, of images uint8 `(B, S, S, 3)`.

        Missing maps are computed with the function `compute` and cached, unless a stride is not in STRIDES.
        """
        if not strides <= set(STRIDES):
            return compute(images, strides)
        if encoder not in self.digests:
            self.digests[encoder] = weights.digest(encoder.net.state_dict())
        keys = [(self.digests[encoder], digest(image)) for image in images]
        maps = {i: self.kept[key] for i, key in enumerate(keys) if key in self.kept}
        missing = [i for i in range(len(keys)) if i not in maps]
        if missing:
            fresh = compute(np.ascontiguousarray(images[missing]), set(STRIDES))
            for row, i in enumerate(missing):
                maps[i] = {s: m[row : row + 1].clone() for s, m in fresh.items()}
                self._keep(keys[i], maps[i])
        for key in keys:
            if key in self.kept:
                self.kept.move_to_end(key)
        return {s: torch.cat([maps[i][s] for i in range(len(keys))]) for s in sorted(strides)}

    def _keep(self, key: tuple[str, bytes], maps: dict[int, Tensor]) -> None:
        if key in self.kept:
            return
        self.kept[key] = maps
        self.held += _bytes(maps)
        while self.held > self.limit:
            self.held -= _bytes(self.kept.popitem(last=False)[1])


_memory: ContextVar[Memory | None] = ContextVar("memory", default=None)


def memory() -> Memory | None:
    """Returns the cache of the enclosing `remembering` block in this thread, or None outside such a block."""
    return _memory.get()


@contextlib.contextmanager
def remembering(limit: int = LIMIT) -> Iterator[Memory]:
    """Context manager that caches up to `limit` bytes of feature maps, so that no detector encodes an image again.

    A nested block uses the cache of the outer block.
    """
    enclosing = _memory.get()
    if enclosing is not None:
        yield enclosing
        return
    token = _memory.set(Memory(limit))
    try:
        yield cast(Memory, _memory.get())
    finally:
        _memory.reset(token)


def _bytes(maps: dict[int, Tensor]) -> int:
    return sum(m.nbytes for m in maps.values())

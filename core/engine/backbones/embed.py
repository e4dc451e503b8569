"""Features that an encoder makes of images, in which clusters are looked for.

Three kinds of one vector per image (`KINDS`):
  centred    (f - c_n) / ||f - c_n||, the vector that l_PMSACL compares (Eq. 6)
  projected  f = f_theta(x), 128 values: the projection head's output, before anything is taken from it
  backbone   the backbone's pooled features (512 of ResNet-18), what the head is fed with
`metrics/vectors.py` finds neighbours among them, without torch.
All in float32: neighbours and distances are looked at one by one, and bf16 would blur them.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
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
    """Images uint8 (N, S, S, 3), of which slices are read: an array, a memory map, or images made on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: slice, /) -> np.ndarray: ...


def _batches(
    images: Images,
    batch: int,
    device: torch.device | str,
    report: Callable[[int, int], None] | None,
    should_stop: Callable[[], bool] | None,
) -> Iterator[tuple[slice, torch.Tensor]]:
    """(which images, those images on the device), batch by batch; reported once the caller is done with them.

    Raises ValueError if there are no images, Stopped if it is asked to stop.
    """
    if not len(images):
        raise ValueError("there are no images to encode")
    for start in range(0, len(images), batch):
        if should_stop is not None and should_stop():
            raise Stopped
        rows = slice(start, min(start + batch, len(images)))
        yield rows, to_batch(np.asarray(images[rows]), torch.device(device))
        if report is not None:
            report(rows.stop, len(images))


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
    """Encodes images uint8 (N, S, S, 3) -> float32 (N, 128) for 'projected', (N, F) for 'backbone', F its own width.

    `images` may be anything with a length that gives an array for a slice, such as a memory map.
    """
    if kind not in ("projected", "backbone"):
        raise ValueError(f"an encoder gives projected or backbone features, not {kind!r}")
    encoder = encoder.to(device).eval()
    out = []
    for _, x in _batches(images, batch, device, report, should_stop):
        z = encoder(x) if kind == "projected" else encoder.backbone(x)
        out.append(z.float().cpu().numpy())
    return np.concatenate(out)


# An encoder made quick for inference: batch norms folded into the convolutions before them, channels last.
#
# On EfficientNet-lite0 at 224 px, one core: 24 ms an image, where channels last alone take 35; `bench quick-fit`.


SIDE = 64  # of the images that the copy is traced and checked with
CLOSE = 1e-3  # of the largest value of a map; folding moves the last digits only


@torch.inference_mode()
def inference_copy(encoder: Encoder) -> Encoder:
    """Copies an encoder, in eval mode, for quicker inference: its maps are the same to the last digits.

    Batch norms are folded into convolutions; the encoder itself is left as it is.

    Which convolution feeds which batch norm is read off one pass, so it works for any network. Should the folded copy's
    maps differ from the encoder's by more than CLOSE, as where a convolution feeds two layers, a plain copy is given.
    Inside `remembering` an encoder is copied once.
    """
    there = memory()
    if there is not None and encoder in there.copies:
        return there.copies[encoder]
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
        # timm's batch norms carry the activation that follows.
        setattr(folded.net.get_submodule(parent), leaf, getattr(norm, "act", None) or nn.Identity())
    folded.to(memory_format=torch.channels_last)
    same = _close(plain.maps(probe), folded.maps(probe))
    quick = (folded if same else plain).requires_grad_(False)
    if there is not None:
        there.copies[encoder] = quick
    return quick


def _fed_by_convolutions(encoder: Encoder, probe: Tensor) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Batch norms whose input is a convolution's output as it is, each with that convolution."""
    outputs: dict[int, tuple[nn.Conv2d, Tensor]] = {}  # the tensors are kept, so that no id is used twice
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


# Feature maps that are kept while several detectors are compared on the same encoder and images.
#
#     with remembering():
#         ...  # fits and scores of any MapDetector
#
# Each detector then costs its own work alone; what it sees is what the encoder would give it.


STRIDES = (4, 8, 16, 32)  # all are kept where any is asked for; a map at stride 2 would take as much as these together
LIMIT = 3 << 30  # bytes

Compute = Callable[[np.ndarray, set[int]], dict[int, Tensor]]


class Memory:
    """A cache of single images' feature maps; those used longest ago are dropped when it exceeds `limit` bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.held = limit, 0
        self.kept: OrderedDict[tuple[str, bytes], dict[int, Tensor]] = OrderedDict()
        self.copies: weakref.WeakKeyDictionary[Encoder, Encoder] = weakref.WeakKeyDictionary()  # quicker ones
        self.digests: weakref.WeakKeyDictionary[Encoder, str] = weakref.WeakKeyDictionary()

    def maps(self, encoder: Encoder, images: np.ndarray, strides: set[int], compute: Compute) -> dict[int, Tensor]:
        """Returns `compute(images, strides)` of images uint8 (B, S, S, 3), {stride: (B, C, h, w)}; reuses kept maps."""
        if not strides <= set(STRIDES):
            return compute(images, strides)
        if encoder not in self.digests:
            self.digests[encoder] = weights.digest(encoder.net.state_dict())
        keys = [(self.digests[encoder], hashlib.blake2b(x.tobytes(), digest_size=16).digest()) for x in images]
        maps = {i: self.kept[key] for i, key in enumerate(keys) if key in self.kept}
        missing = [i for i in range(len(keys)) if i not in maps]
        if missing:
            fresh = compute(np.ascontiguousarray(images[missing]), set(STRIDES))
            for place, i in enumerate(missing):
                maps[i] = {s: m[place : place + 1].clone() for s, m in fresh.items()}
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
    """Returns the memory of the `remembering` that is under way in this thread, if any."""
    return _memory.get()


@contextlib.contextmanager
def remembering(limit: int = LIMIT) -> Iterator[Memory]:
    """Keeps feature maps of at most `limit` bytes until the block ends; inside another block, that one does."""
    there = _memory.get()
    if there is not None:
        yield there
        return
    token = _memory.set(Memory(limit))
    try:
        yield cast(Memory, _memory.get())
    finally:
        _memory.reset(token)


def _bytes(maps: dict[int, Tensor]) -> int:
    return sum(m.nbytes for m in maps.values())

"""What an encoder makes of images: the features that clusters are looked for in.

Three kinds of one vector per image (`KINDS`), and one per place (`patch_features`):
  centred    (f - c_n) / ||f - c_n||, the vector that l_PMSACL compares (Eq. 6)
  projected  f = f_theta(x), 128 values: the projection head's output, before anything is taken from it
  backbone   the backbone's pooled features (512 of ResNet-18), what the head is fed with
`metrics/vectors.py` finds neighbours among them, without torch.
All in float32: neighbours and distances are looked at one by one, and bf16 would blur them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import torch
from torch.nn import functional as F

from core.engine.backbones.encoder import Encoder
from core.engine.progress import Stopped
from core.engine.tensors import to_batch

KINDS = ("centred", "projected", "backbone")
PATCH_STRIDES = (4, 8, 16)  # PaDiM's own


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
        part = slice(start, min(start + batch, len(images)))
        yield part, to_batch(np.asarray(images[part]), torch.device(device))
        if report is not None:
            report(part.stop, len(images))


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
    """images uint8 (N, S, S, 3) -> float32 (N, 128) for 'projected', (N, F) for 'backbone', F its own width.

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


@torch.inference_mode()
def patch_features(
    encoder: Encoder,
    images: Images,
    places: np.ndarray,
    *,
    grid: int,
    batch: int = 32,
    device: torch.device | str = "cpu",
    report: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> np.ndarray:
    """Features of P places of each image, as PaDiM sees them: float32 (N, P, C), C all widths together.

    places: int (N, P), flat cells of a `grid` x `grid` lattice over the image. Maps of strides 4 to 16 are averaged
    down (or repeated up) to that lattice, laid side by side, and read at the places.
    """
    encoder = encoder.to(device).eval()
    out = []
    for part, x in _batches(images, batch, device, report, should_stop):
        cells = []
        for m in encoder.maps(x, PATCH_STRIDES).values():
            m = m.float()
            if m.shape[-1] > grid:
                m = F.adaptive_avg_pool2d(m, grid)
            elif m.shape[-1] < grid:
                m = F.interpolate(m, size=(grid, grid), mode="nearest")
            cells.append(m.flatten(2))  # (B, C, grid * grid)
        lattice = torch.cat(cells, 1)
        index = torch.from_numpy(np.asarray(places[part], np.int64)).to(x.device)
        picked = lattice.gather(2, index[:, None].expand(-1, lattice.shape[1], -1))  # (B, C, P)
        out.append(picked.transpose(1, 2).cpu().numpy())
    return np.concatenate(out)

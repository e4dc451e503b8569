"""MedMix with real lesions that readers annotated, cut along their outlines and pasted with a soft edge.

`pasted`, used by detectors that are trained on annotations, handles one image and selects a place whose surroundings
resemble the lesion's. `MedMix`, with the donor `marked`, pastes lesions from `MarkedLesions` at random places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np
import torch
from torch import Tensor

from core.engine.tensors import to_batch

LEAST = 12  # smallest area of a lesion in pixels
RING = 15  # side in pixels of the square by which a lesion is dilated to get its surroundings
SOFT = (1.0, 4.0)  # range of the blur's sigma at the edge, in pixels of a 224 x 224 image
EDGE = 2.0  # fixed sigma of the edge for lesions that MedMix pastes
AWAY = 0.4  # largest shift of a lesion in each direction, relative to the image's side
TRIES = 6  # number of random places that are compared
MATCH = (0.5, 1.0)  # range of the shift towards the colour of the new place; 1 is complete


@dataclass
class MarkedLesions:
    """M connected lesions that readers annotated in N images. The fields `image` and `boxes` are on the CPU.

    Attributes:
        images: Images `(N, 3, S, S)` in [0, 1].
        image: Index of each lesion's image `(M,)`.
        alpha: Weight of each lesion in each pixel `(M, S, S)`: 1 inside, 0 outside, with a soft edge.
        boxes: Box (y0, x0, h, w) around each lesion and its soft edge in pixels, long `(M, 4)`.
        around: Mean colour around all lesions of the image that contains the lesion `(M, 3)`.
    """

    images: Tensor
    image: Tensor
    alpha: Tensor
    boxes: Tensor
    around: Tensor

    @classmethod
    def of(cls, images: np.ndarray, masks: np.ndarray, device: torch.device) -> MarkedLesions | None:
        """Returns the lesions in images uint8 `(N, S, S, 3)` with masks `(N, S, S)`, or None if all are too small."""
        side = masks.shape[-1]
        rows: list[tuple[int, np.ndarray, list[int], np.ndarray]] = []
        for number, (image, mask) in enumerate(zip(images, masks, strict=True)):
            count, component_of = cv2.connectedComponents(np.ascontiguousarray(mask, np.uint8))
            around = _around(image, mask) / 255
            for component in range(1, count):
                lesion = (component_of == component).astype(np.uint8)
                if lesion.sum() < LEAST:
                    continue
                alpha = cv2.GaussianBlur(lesion.astype(np.float32), (0, 0), max(SOFT[0], EDGE * side / 224))
                ys, xs = (np.flatnonzero((alpha > 1 / 255).any(axis)) for axis in (1, 0))
                box = [int(ys[0]), int(xs[0]), int(ys[-1] - ys[0] + 1), int(xs[-1] - xs[0] + 1)]
                rows.append((number, alpha, box, around))
        if not rows:
            return None
        numbers, alphas, boxes, colours = zip(*rows, strict=True)
        return cls(
            to_batch(images, device),
            torch.tensor(numbers),
            torch.from_numpy(np.stack(alphas)).to(device),
            torch.tensor(boxes),
            torch.from_numpy(np.stack(colours)).float().to(device),
        )

    def to(self, device: torch.device) -> MarkedLesions:
        """Returns a copy with `images`, `alpha` and `around` on `device`."""
        moved_fields = {name: getattr(self, name).to(device) for name in ("images", "alpha", "around")}
        return replace(self, **moved_fields)


def pasted(
    under: np.ndarray, roi: np.ndarray | None, donor: np.ndarray, mask: np.ndarray, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Pastes an annotated lesion into an image with a soft edge, its colour shifted towards that of the new place.

    TRIES places are drawn at random. Among those with at least 80 % of the lesion inside `roi`, the place whose
    surroundings are most similar to the lesion's is used.

    Args:
        under: Image to paste into, uint8 `(S, S, 3)`.
        roi: Region of interest, uint8 `(S, S)`, 1 inside, or None.
        donor: Image with the lesion, uint8 `(S, S, 3)`.
        mask: Mask of the lesion, uint8 `(S, S)`.

    Returns:
        The new image and the mask of the pasted lesion. If the lesion has fewer than LEAST pixels or no place fits, the
        image is unchanged and the mask is empty.
    """
    side = len(under)
    lesion_ring = _around(donor, mask)
    best: tuple[float, np.ndarray, np.ndarray, np.ndarray] | None = None
    for _ in range(TRIES if mask.sum() >= LEAST else 0):
        away = draw.uniform(-AWAY, AWAY, 2) * side
        moved = np.array([[1, 0, away[0]], [0, 1, away[1]]], np.float32)
        mask_there = cv2.warpAffine(mask, moved, (side, side), flags=cv2.INTER_NEAREST)
        if mask_there.sum() < LEAST or (roi is not None and (mask_there & roi).sum() < 0.8 * mask_there.sum()):
            continue
        colour = _around(under, mask_there)
        unlike = float(np.abs(colour - lesion_ring).sum())
        if best is None or unlike < best[0]:
            best = unlike, moved, mask_there, colour
    if best is None:
        return under, np.zeros_like(mask)
    _, moved, mask_there, colour = best
    over = cv2.warpAffine(donor, moved, (side, side), borderMode=cv2.BORDER_REFLECT_101).astype(np.float32)
    over += draw.uniform(*MATCH) * (colour - lesion_ring)
    alpha = cv2.GaussianBlur(mask_there.astype(np.float32), (0, 0), draw.uniform(*SOFT) * side / 224)[..., None]
    return np.clip(under * (1 - alpha) + over * alpha, 0, 255).astype(np.uint8), mask_there


def _around(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Computes the mean colour `(3,)` of a ring around a mask, or of the whole image if the ring is empty."""
    ring = (cv2.dilate(mask, np.ones((RING, RING), np.uint8)) > 0) & (mask == 0)
    return np.asarray(image[ring].mean(0) if ring.any() else image.mean((0, 1)), np.float32)

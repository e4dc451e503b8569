"""Resizes images, regions of interest and lesion masks to the side length that a run uses."""

from __future__ import annotations

import cv2
import numpy as np

ROI_SIDE = 512  # pixels per side at which regions of interest are found; burned-in text is still legible


def prepare(image: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Resizes an image `(H, W, 3)`; returns (image `(size, size, 3)`, its region of interest `(size, size)`)."""
    from core.engine.roi import find_roi

    roi = find_roi(fit(image, ROI_SIDE))
    return shrink(image, size, size), (fraction(roi, size) >= 0.5).astype(np.uint8)


def fit(image: np.ndarray, side: int) -> np.ndarray:
    """Shrinks an image so that its longer side has at most `side` pixels. Smaller images are not resized."""
    scale = min(1.0, side / max(image.shape[:2]))
    return shrink(image, max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))


def shrink(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """Resizes an image to `width` x `height`, with area averaging if it gets smaller, otherwise bilinearly."""
    smaller = width * height < image.shape[0] * image.shape[1]
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)


def fraction(mask: np.ndarray, size: int) -> np.ndarray:
    """Returns the fraction of each pixel that a binary mask covers after resizing, float32 `(size, size)`."""
    return shrink(mask.astype(np.float32), size, size)


def mask_at(mask: np.ndarray, size: int) -> np.ndarray:
    """Resizes a lesion mask to `(size, size)`. Pixels that are at least half covered by lesions become 1.

    If there are no such pixels, the pixels with the largest covered fraction become 1, to preserve small lesions.
    """
    covered = fraction(mask, size)
    small = covered >= 0.5
    if not small.any() and mask.any():
        small = covered == covered.max()
    return small.astype(np.uint8)

"""Resizes images, regions of interest and lesion masks to the side length that a run uses."""

from __future__ import annotations

import cv2
import numpy as np

ROI_SIDE = 512  # pixels per side at which regions of interest are found; burned-in text is still legible


def prepare(image: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns (image resized to `(size, size, 3)`, region of interest `(size, size)`) of an image `(H, W, 3)`."""
    from core.engine.roi import find_roi

    roi = find_roi(fit(image, ROI_SIDE))
    return shrink(image, size, size), (fraction(roi, size) >= 0.5).astype(np.uint8)


def fit(image: np.ndarray, side: int) -> np.ndarray:
    """Shrinks an image so that its longer side is at most `side` pixels. A smaller image keeps its size."""
    scale = min(1.0, side / max(image.shape[:2]))
    return shrink(image, max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))


def shrink(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """Resizes an image to `width` x `height`, by area averaging if it becomes smaller and bilinearly otherwise."""
    smaller = width * height < image.shape[0] * image.shape[1]
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)


def fraction(mask: np.ndarray, size: int) -> np.ndarray:
    """Returns the fraction of each resized pixel that a mask of 0 and 1 covers, float32 `(size, size)`."""
    return shrink(mask.astype(np.float32), size, size)


def mask_at(mask: np.ndarray, size: int) -> np.ndarray:
    """Resizes a lesion mask to `(size, size)`, with 1 for pixels that lesions cover by at least half.

    If lesions cover no pixel by half, the most covered pixels are 1.
    """
    covered = fraction(mask, size)
    small = covered >= 0.5
    if not small.any() and mask.any():
        small = covered == covered.max()
    return small.astype(np.uint8)

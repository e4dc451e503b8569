"""Small normal images for tests: smooth, each its own, drawn from a seed."""

from __future__ import annotations

import cv2
import numpy as np


def normals(count: int, size: int = 32, seed: int = 0) -> np.ndarray:
    """uint8 (count, size, size, 3): soft blobs of colour over a tone of flesh."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(0, 45, (count, 5, 5, 3)) + np.array([170, 95, 80])
    images = [cv2.resize(c, (size, size), interpolation=cv2.INTER_CUBIC) for c in coarse]
    return np.clip(np.stack(images) + rng.normal(0, 4, (count, size, size, 3)), 0, 255).astype(np.uint8)

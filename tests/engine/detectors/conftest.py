"""An untrained encoder and smooth images, for the detectors that fit them in a moment."""

from __future__ import annotations

import numpy as np
import pytest

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(seed=3))


@pytest.fixture(scope="module")
def images():
    """24 images of 64 px: smooth, alike, each with noise of its own."""
    draw = np.random.default_rng(0)
    y, x = np.mgrid[:64, :64] / 64
    base = np.stack([150 + 60 * x, 90 + 40 * y, 80 + 20 * x * y], -1)
    return np.clip(base + draw.normal(0, 12, (24, 64, 64, 3)), 0, 255).astype(np.uint8)


def with_spot(images: np.ndarray, at: int) -> np.ndarray:
    """Copies of the images with a square of 10 px of another colour, its corner at (at, at)."""
    spotted = images.copy()
    spotted[:, at : at + 10, at : at + 10] = (20, 200, 220)
    return spotted

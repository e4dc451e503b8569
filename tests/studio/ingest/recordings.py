"""Videos for tests: each frame carries its own number in a row of black and white squares that survives compression."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

BITS = 8
SIDE = 16


def write_video(
    path: Path,
    count: int,
    code: str = "MJPG",
    rate: float = 25.0,
    first: int = 0,
    picture: Callable[[int], np.ndarray] | None = None,
) -> Path:
    """`count` frames of 128 x 96 (or what `picture(i)` draws, uint8 (H, W, 3) RGB), numbered from `first`."""
    coarse = np.random.default_rng(0).integers(60, 180, (6, 8, 3), np.uint8)
    base = cv2.resize(coarse, (128, 96), interpolation=cv2.INTER_CUBIC)
    drawn = [(picture(i) if picture else base).copy() for i in range(count)]
    height, width = drawn[0].shape[:2]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*code), rate, (width, height))
    assert writer.isOpened(), f"this OpenCV cannot write {code} into {path.suffix}"
    for i, image in enumerate(drawn):
        for bit in range(BITS):
            image[:SIDE, SIDE * bit : SIDE * (bit + 1)] = 255 * ((first + i) >> bit & 1)
        writer.write(np.ascontiguousarray(image[..., ::-1]))
    writer.release()
    return path


def number_in(image: np.ndarray) -> int:
    """The number that a frame carries."""
    middles = image[SIDE // 2, SIDE // 2 : SIDE * BITS : SIDE].mean(-1)
    return sum(1 << i for i, value in enumerate(middles) if value > 127)

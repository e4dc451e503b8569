"""MedMix with real donors: a lesion that a reader marked, in its own outline, pasted softly into another image."""

from __future__ import annotations

import cv2
import numpy as np

LEAST = 12  # pixels of a lesion that is worth pasting
RING = 15  # side in pixels of the square by which a lesion is widened: its surroundings, whose colour is fitted
SOFT = (1.0, 4.0)  # sigma of the edge, in pixels at 224 x 224
AWAY = 0.27  # of the side, how far a lesion is moved either way
TRIES = 4


def pasted(
    under: np.ndarray, roi: np.ndarray | None, donor: np.ndarray, mask: np.ndarray, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The image `under` with the donor's lesion, and where it is now.

    under, donor uint8 (S, S, 3); roi, mask uint8 (S, S), 1 inside. The lesion is cut along its own mask, moved to where
    most of it lies inside roi, joined by a soft edge, and in half of the cases given the colour of its new place. A
    lesion of fewer than LEAST pixels leaves the image as it is.
    """
    side = len(under)
    for _ in range(TRIES):
        moved = np.array(
            [[1, 0, draw.uniform(-AWAY, AWAY) * side], [0, 1, draw.uniform(-AWAY, AWAY) * side]], np.float32
        )
        there = cv2.warpAffine(mask, moved, (side, side), flags=cv2.INTER_NEAREST)
        if there.sum() >= LEAST and (roi is None or (there & roi).sum() >= 0.8 * there.sum()):
            break
    if there.sum() < LEAST:
        return under, np.zeros_like(mask)
    over = cv2.warpAffine(donor, moved, (side, side)).astype(np.float32)
    ring = (cv2.dilate(there, np.ones((RING, RING), np.uint8)) > 0) & (there == 0)
    match = draw.uniform(0.5, 1.0) if draw.random() < 0.5 else 0.0
    if match and ring.any():
        over = over + match * (under[ring].mean(0) - over[ring].mean(0))
    alpha = cv2.GaussianBlur(there.astype(np.float32), (0, 0), draw.uniform(*SOFT) * side / 224)[..., None]
    return np.clip(under * (1 - alpha) + over * alpha, 0, 255).astype(np.uint8), there

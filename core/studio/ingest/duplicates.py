"""Finds pictures that occur twice, exactly (same bytes) or nearly (same look), in training and test cases."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable

import cv2
import numpy as np

NEAR_BITS = 10  # of 64; only for candidates, whose fine detail decides
# Measured on 64 px thumbnails: pictures re-encoded at quality 50, 0.7 times the size and brightened stay above 0.96;
# different colonoscopies stay below 0.68, chest X-rays below 0.47, fundi (all similar at low resolution) below 0.85.
NEAR_CORRELATION = 0.92


def thumbnail(image: np.ndarray) -> np.ndarray:
    """Shrinks an image to a grey thumbnail: uint8 (H, W, 3) -> uint8 (64, 64)."""
    return cv2.cvtColor(cv2.resize(image, (64, 64), interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY)


def perceptual_hash(thumb: np.ndarray) -> str:
    """Hashes a thumbnail: uint8 (64, 64) -> 16 hex digits.

    Each bit says whether one of the 64 lowest cosine frequencies lies above their median.
    """
    small = cv2.resize(thumb, (32, 32), interpolation=cv2.INTER_AREA)
    low = cv2.dct(small.astype(np.float32))[:8, :8].ravel()
    bits = low > np.median(low[1:])
    return f"{int(''.join('1' if b else '0' for b in bits), 2):016x}"


def near_pairs(
    hashes_a: list[str], hashes_b: list[str], thumb_a: Callable[[int], np.ndarray], thumb_b: Callable[[int], np.ndarray]
) -> list[tuple[int, int, float]]:
    """Finds nearly equal pictures of two sets; returns [(i, j, correlation)].

    Hashes alone would match any two chest X-rays; a pair counts only if its fine detail agrees as well. thumb_a,
    thumb_b: return the thumbnail of a picture by its index; called only if hashes are similar.
    """
    if not hashes_a or not hashes_b:
        return []
    a, b = (np.array([int(h, 16) for h in hashes], np.uint64) for hashes in (hashes_a, hashes_b))
    fine_a, fine_b = functools.cache(lambda i: _standard(thumb_a(i))), functools.cache(lambda j: _standard(thumb_b(j)))
    pairs = []
    for i in range(len(a)):
        for j in np.flatnonzero(np.bitwise_count(a[i] ^ b) <= NEAR_BITS):
            alike = float(fine_a(i) @ fine_b(int(j)))
            if alike >= NEAR_CORRELATION:
                pairs.append((i, int(j), alike))
    return pairs


def alike(thumbs: list[np.ndarray]) -> str:
    """Says how many of the normal images are the same picture, or blank; "" if neither is frequent.

    thumbs: uint8 (64, 64) of all normal images.
    """
    counts = Counter(thumb.tobytes() for thumb in thumbs)
    same, blank = max(counts.values(), default=0), sum(int(thumb.max()) - int(thumb.min()) < 4 for thumb in thumbs)
    sentences = []
    if same > 1 and same * 10 >= len(thumbs):
        sentences.append(f"{same} of {len(thumbs)} normal images are the same picture")
    if blank * 10 >= len(thumbs) > 0 and blank:
        sentences.append(f"{blank} of {len(thumbs)} normal images show one shade and nothing else")
    return "; ".join(sentences) + (": a detector trained on them says little about others" if sentences else "")


def _standard(thumb: np.ndarray) -> np.ndarray:
    """Returns a thumbnail's fine detail, normalised; removes coarse shapes, which all images of an organ share."""
    grey = thumb.astype(np.float32)
    fine = np.clip(grey - cv2.GaussianBlur(grey, (0, 0), 1.5), -12, 12).ravel()
    fine -= fine.mean()
    return fine / max(float(np.linalg.norm(fine)), 1e-6)

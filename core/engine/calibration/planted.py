"""The lesions that a threshold misses, estimated from lesions planted into held-out normal images.

A threshold from normals alone keeps its promise of false alarms and may still be nearly silent. Planted lesions are
MedMix's, of given sizes and contrasts; no lesion of a test image has a part in it, and real lesions may be easier or
harder to see than these: RESULTS.md compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

SIZES = (0.05, 0.1, 0.2, 0.35, 0.5)  # of a lesion's longer side, in parts of the image's
CONTRASTS = (0.5, 1.0)  # opacity of what is pasted
PRESETS = ("cut", "soft", "mottle", "foreign")  # in turn; no preset of the lesion head learns from these
IMAGES = 24


class Planted(NamedTuple):
    """Images with planted lesions of one size and contrast.

    images: how many. flagged: how many of them are flagged. area: the median share of the image that is changed.
    """

    size: float
    contrast: float
    images: int
    flagged: int
    area: float


def sensitivity(
    score: Callable[[np.ndarray, np.ndarray], np.ndarray],
    images: np.ndarray,
    roi: np.ndarray,
    threshold: float,
    sizes: tuple[float, ...] = SIZES,
    contrasts: tuple[float, ...] = CONTRASTS,
    seed: int = 0,
) -> list[Planted]:
    """Counts the held-out normals that are flagged with one planted lesion, by its size and contrast.

    score: (n,) of images uint8 (n, S, S, 3) with their regions of interest uint8 (n, S, S); an image is flagged above
    the threshold. Up to IMAGES of the images are taken, the same for every size. A lesion that changes nothing (it fell
    outside of the region) is counted as missed: so it would be.
    """
    chosen = np.sort(np.random.default_rng([seed, IMAGES]).permutation(len(images))[:IMAGES])
    plain, inside = np.asarray(images[chosen]), np.asarray(roi[chosen])
    rows = []
    for size in sizes:
        for contrast in contrasts:
            given, area = planted(plain, inside, size, contrast, seed)
            flagged = np.asarray(score(given, inside)) > threshold
            rows.append(Planted(size, contrast, len(given), int(flagged.sum()), float(np.median(area))))
    return rows


def planted(
    images: np.ndarray, roi: np.ndarray, size: float, contrast: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Plants one lesion into each image: images uint8 (n, S, S, 3), and the share of each that is changed (n,)."""
    import torch

    from core.engine.augment.config import MEDMIX_PRESETS
    from core.engine.augment.medmix.medmix import MedMix
    from core.engine.augment.strong import paste_in_turn
    from core.engine.tensors import to_batch, to_pixels

    x, within = to_batch(np.ascontiguousarray(images), torch.device("cpu")), torch.from_numpy(np.array(roi))
    draws = torch.Generator().manual_seed(seed)
    asked = {"size": (size, size), "opacity": (contrast, contrast)}
    mixed, alpha = paste_in_turn([MedMix(MEDMIX_PRESETS[name].replace(**asked)) for name in PRESETS], x, draws, within)
    return to_pixels(mixed), (alpha > 0.3).float().mean((1, 2)).numpy()

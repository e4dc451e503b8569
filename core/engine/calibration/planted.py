"""Estimates the sensitivity of a threshold from synthetic lesions pasted into held-out normal images.

A threshold from normal images limits false alarms, but may still miss most lesions. The lesions are pasted by MedMix
with given sizes and contrasts. No test image is used. Real lesions may be easier or harder to detect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from core.engine.augment.config import MEDMIX_PRESETS, MedMixConfig

SIZES = (0.05, 0.1, 0.2, 0.35, 0.5)  # longer side of a lesion relative to the side length of the image
CONTRASTS = (0.5, 1.0)  # opacity of the lesions
# Kinds of lesions, used in turn, on which no preset of the lesion head is trained.
KINDS = tuple(MEDMIX_PRESETS[name] for name in ("cut", "soft", "mottle", "foreign"))
IMAGES = 24  # largest number of images


class Planted(NamedTuple):
    """Number `flagged` of the `images` that each contain one pasted lesion of the given size and contrast.

    Attributes:
        size: Longer side of the lesions, relative to the side length of the image.
        contrast: Opacity of the lesions.
        area: Median area of the lesions as a fraction of the image.
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
    kinds: Sequence[MedMixConfig] = KINDS,
) -> list[Planted]:
    """Counts, for each lesion size and contrast, how many normal images are flagged after a lesion is pasted.

    All sizes use the same held-out images, at most IMAGES. Images that do not change, because the lesion lies outside
    the region of interest, are also counted.

    Args:
        score: Function that returns scores `(n,)` of images uint8 `(n, S, S, 3)` with regions uint8 `(n, S, S)`.
        images: uint8 `(N, S, S, 3)` held-out normal images.
        roi: uint8 `(N, S, S)` regions of interest of the images.
        threshold: Score above which an image is flagged.
        sizes: Sizes of the lesions.
        contrasts: Opacities of the lesions.
        seed: Random seed of the choice of images and of the lesions.
        kinds: MedMix settings of the lesions, except size and opacity; the images alternate between them.
    """
    chosen = np.sort(np.random.default_rng([seed, IMAGES]).permutation(len(images))[:IMAGES])
    plain, inside = np.asarray(images[chosen]), np.asarray(roi[chosen])
    rows = []
    for size in sizes:
        for contrast in contrasts:
            planted_images, area = planted(plain, inside, size, contrast, seed, kinds)
            flagged = np.asarray(score(planted_images, inside)) > threshold
            rows.append(Planted(size, contrast, len(planted_images), int(flagged.sum()), float(np.median(area))))
    return rows


def planted(
    images: np.ndarray,
    roi: np.ndarray,
    size: float,
    contrast: float,
    seed: int,
    kinds: Sequence[MedMixConfig] = KINDS,
) -> tuple[np.ndarray, np.ndarray]:
    """Pastes one lesion into each image; returns images uint8 `(n, S, S, 3)` and areas relative to the image `(n,)`."""
    import torch

    from core.engine.augment.medmix.medmix import MedMix
    from core.engine.augment.strong import paste_in_turn
    from core.engine.tensors import to_batch, to_pixels

    x, within = to_batch(np.ascontiguousarray(images), torch.device("cpu")), torch.from_numpy(np.array(roi))
    draws = torch.Generator().manual_seed(seed)
    options = {"size": (size, size), "opacity": (contrast, contrast)}
    mixed, alpha = paste_in_turn(
        [MedMix(_faded(kind, contrast).replace(**options)) for kind in kinds], x, draws, within
    )
    return to_pixels(mixed), (alpha > 0.3).float().mean((1, 2)).numpy()


def _faded(kind: MedMixConfig, opacity: float) -> MedMixConfig:
    """Replaces the blend `paste`, which ignores the opacity, by `alpha` if the opacity is not 1."""
    blends = dict.fromkeys(kind.blend.replace("paste", "alpha").split("+"))
    return kind if opacity == 1 else kind.replace(blend="+".join(blends))

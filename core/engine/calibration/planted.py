"""The sensitivity of a threshold, estimated from lesions planted into held-out normal images.

A threshold from normal images limits false alarms, but may still miss most lesions. The planted lesions are MedMix's,
of given sizes and contrasts. No lesion of a test image is used, and real lesions may be easier or harder to see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from core.engine.augment.config import MEDMIX_PRESETS, MedMixConfig

SIZES = (0.05, 0.1, 0.2, 0.35, 0.5)  # longer side of a lesion, relative to the side of the image
CONTRASTS = (0.5, 1.0)  # opacity of the lesions
# Pasted in turn; no preset of the lesion head is trained on them.
KINDS = tuple(MEDMIX_PRESETS[name] for name in ("cut", "soft", "mottle", "foreign"))
IMAGES = 24


class Planted(NamedTuple):
    """The results for planted lesions of one size and contrast.

    images: number of images, each with one lesion. flagged: how many are flagged. area: median lesion area (share).
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
    """Returns how many held-out normals are flagged with one planted lesion, by its size and contrast.

    Up to IMAGES images are used, the same for every size. Images in which the lesion changes nothing, because it is
    outside the region of interest, are counted too.

    Args:
        score: Returns scores (n,) of images uint8 (n, S, S, 3) with regions of interest uint8 (n, S, S).
        images: uint8 (N, S, S, 3), held-out normals.
        roi: uint8 (N, S, S), their regions of interest.
        threshold: Score above which an image is flagged.
        sizes: Sizes of lesions. contrasts: their opacities.
        seed: Seed of the choice of images and of the lesions.
        kinds: Settings of the lesions except size and opacity; they are used in turn.
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
    """Plants one lesion into each image; returns images uint8 (n, S, S, 3) and lesion areas as shares (n,)."""
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

"""Synthetic validation data: normal images that nothing was fitted on, with lesions of families never trained on.

Scores and combinations are chosen here, so that no test image has a say in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from core.engine.calibration.heatmap import upsample
from core.engine.detectors.base import Detector
from core.engine.detectors.lesion_head.config import LesionHeadConfig
from core.engine.detectors.lesion_head.synth import Pairs
from core.engine.tensors import to_batch, to_pixels
from core.engine.training.generators import JUDGES as JUDGES_DRAWS
from core.engine.training.generators import VALIDATION, generator

AT_MOST = 512  # normal images: the AUROC of as many and their fakes is known to 0.02, and they lie in memory together


@dataclass
class SyntheticValidation:
    """images uint8 (M, S, S, 3), the `normals` as they were first; masks bool (M, S, S); roi uint8 (M, S, S) or None.

    labels (M,): 1 if a lesion is to be seen. use bool (M,): False where one was put in that cannot be seen, which is
    neither normal nor abnormal.
    """

    images: np.ndarray
    masks: np.ndarray
    roi: np.ndarray | None
    labels: np.ndarray
    use: np.ndarray
    normals: int

    @classmethod
    def draw(cls, images: np.ndarray, roi: np.ndarray | None, config: LesionHeadConfig) -> SyntheticValidation:
        """images uint8 (N, S, S, 3), normal -> each as it is and with 1..k lesions of `config.held_out`.

        Of more than AT_MOST images so many are drawn.
        """
        if len(images) > AT_MOST:
            rows = np.sort(np.random.default_rng(config.seed).permutation(len(images))[:AT_MOST])
            images, roi = images[rows], None if roi is None else roi[rows]
        images = np.asarray(images)
        draws = generator(config.seed, VALIDATION)
        pairs = Pairs(config.held_out or config.families, config.k)
        inside = None if roi is None else torch.from_numpy(np.array(roi))
        x, parts, masks = to_batch(images, torch.device("cpu")), [images], [np.zeros(images.shape[:3], bool)]
        for n in range(1, config.k + 1):
            pair = pairs(x, inside, draws, counts=torch.full((len(images),), n))
            parts.append(to_pixels(pair.images))
            masks.append(pair.masks.numpy())
        labels = np.concatenate([m.any((1, 2)) for m in masks]).astype(int)
        use = np.r_[np.ones(len(images), bool), labels[len(images) :] == 1]
        every = None if roi is None else np.concatenate([roi] * len(parts))
        return cls(np.concatenate(parts), np.concatenate(masks), every, labels, use, len(images))


# Kinds of lesion that no preset of the lesion head is trained on, and that have little in common.
JUDGES = ("medmix:lens", "medmix:mottle", "medmix:seam", "medmix:grain", "medmix:foreign", "medmix:stain")


def judge(
    detector: Detector,
    images: np.ndarray,
    roi: np.ndarray | None,
    judges: tuple[str, ...] = JUDGES,
    *,
    lesions: int = 2,
    seed: int = 0,
) -> dict[str, dict[str, float]]:
    """How well a fitted detector finds fake lesions in normals it never saw: family -> image and pixel AUROC.

    images uint8 (N, S, S, 3), normal and held out; each is judged as it is and with `lesions` of a family. Any detector
    can be judged; for one that was trained on synthetic lesions the families must be others than those.
    """
    from sklearn.metrics import roc_auc_score  # here: scikit-learn takes seconds to load

    size = images.shape[1]
    inside = None if roi is None else torch.from_numpy(np.array(roi))
    counted = np.ones(images.shape[:3], bool) if roi is None else roi.astype(bool)
    plain = detector.predict(images)
    plain_scores, plain_maps = detector.image_score(plain, roi), upsample(plain.maps, size)
    found = {}
    for family in judges:
        counts = torch.full((len(images),), lesions)
        pair = Pairs((family,), 3)(
            to_batch(images, torch.device("cpu")), inside, generator(seed, JUDGES_DRAWS), counts=counts
        )
        masks = pair.masks.numpy()
        use = masks.any((1, 2))
        if not use.any():
            continue
        mixed = detector.predict(to_pixels(pair.images))
        scores, maps = detector.image_score(mixed, roi)[use], upsample(mixed.maps, size)[use]
        labels = np.r_[np.zeros(len(images)), np.ones(len(scores))]
        cells = np.r_[plain_maps[counted], maps[counted[use]]]
        truth = np.r_[np.zeros(int(counted.sum())), masks[use][counted[use]]]
        found[family] = {
            "auroc": float(roc_auc_score(labels, np.r_[plain_scores, scores])),
            "pixel_auroc": float(roc_auc_score(truth, cells)),
        }
    return found

"""Synthetic validation data: normal images that nothing was fitted on, with lesions of families never trained on.

Scores and combinations are chosen here, so that no test image has a say in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from core.engine.device import to_batch
from core.engine.lesion.config import LesionHeadConfig
from core.engine.lesion.synth import Pairs
from core.engine.lesion.train import step_generator


@dataclass
class SyntheticValidation:
    """images uint8 (M, S, S, 3), the N normal ones first; masks bool (M, S, S); roi uint8 (M, S, S) or None.

    labels (M,): 1 if a lesion is to be seen. use bool (M,): False where one was put in that cannot be seen, which is
    neither normal nor abnormal.
    """

    images: np.ndarray
    masks: np.ndarray
    roi: np.ndarray | None
    labels: np.ndarray
    use: np.ndarray

    @classmethod
    def draw(cls, images: np.ndarray, roi: np.ndarray | None, config: LesionHeadConfig) -> SyntheticValidation:
        """images uint8 (N, S, S, 3), normal -> each as it is and with 1..k lesions of `config.held_out`."""
        generator = step_generator(config.seed, -2)
        pairs = Pairs(config.held_out or config.families, config.k)
        inside = None if roi is None else torch.from_numpy(np.ascontiguousarray(roi))
        x, parts, masks = to_batch(images, torch.device("cpu")), [images], [np.zeros(images.shape[:3], bool)]
        for n in range(1, config.k + 1):
            pair = pairs(x, inside, generator, counts=torch.full((len(images),), n))
            parts.append((pair.images * 255).round().byte().permute(0, 2, 3, 1).numpy())
            masks.append(pair.masks.numpy())
        labels = np.concatenate([m.any((1, 2)) for m in masks]).astype(int)
        use = np.r_[np.ones(len(images), bool), labels[len(images) :] == 1]
        every = None if roi is None else np.concatenate([roi] * len(parts))
        return cls(np.concatenate(parts), np.concatenate(masks), every, labels, use)

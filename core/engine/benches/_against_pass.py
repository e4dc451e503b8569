"""A detector's scoring beside the pass of the backbone that it needs anyway."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from core.engine.benches._paired import medians
from core.engine.detectors.map_detector import MapDetector
from core.engine.tensors import to_batch


def scoring(detector: MapDetector, images: np.ndarray, rounds: int) -> dict[str, Any]:
    """From uint8 (N, S, S, 3) to scores. "ratio": over the bare pass up to the coarsest map that the detector reads.

    "ratio_whole" is against the whole backbone, its last stage and pooling included, which scoring does not need.
    """
    encoder = detector.encoder
    device = encoder.mean.device

    def score() -> None:
        detector.image_score(detector.predict(images))

    @torch.inference_mode()
    def bare() -> None:
        encoder.maps(to_batch(images, device), detector.config.strides)

    @torch.inference_mode()
    def whole() -> None:
        encoder.backbone(to_batch(images, device))

    taken, passing, through = medians([score, bare, whole], rounds, device=device)
    return {
        "ratio": taken / passing,
        "ratio_whole": taken / through,
        "images_per_second": len(images) / taken,
        "backbone_images_per_second": len(images) / passing,
        "threads": torch.get_num_threads(),
    }

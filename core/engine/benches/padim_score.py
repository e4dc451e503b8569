"""PaDiM's scoring against the forward pass of the backbone it needs anyway."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from core.engine.backbones.encoder import EncoderConfig, build_encoder
from core.engine.benches._paired import medians
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.tensors import to_batch


def run(quick: bool = False) -> dict[str, Any]:
    """Images of 256 px (quick: 128), from uint8 to score. "ratio": scoring over the bare pass up to layer 3.

    "ratio_whole" is against the whole backbone, layer 4 and pooling included, which scoring does not need.
    """
    size, n, rounds = (128, 16, 3) if quick else (256, 32, 7)
    images = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    encoder = build_encoder(EncoderConfig()).eval()
    padim = PaDiM.fit(encoder, images, PaDiMConfig())

    def score() -> None:
        padim.image_score(padim.predict(images))

    @torch.inference_mode()
    def bare() -> None:
        encoder.maps(to_batch(images, torch.device("cpu")), (4, 8, 16))

    @torch.inference_mode()
    def whole() -> None:
        encoder.backbone(to_batch(images, torch.device("cpu")))

    scoring, passing, through = medians([score, bare, whole], rounds)
    return {
        "bench": "padim-score",
        "ratio": scoring / passing,
        "ratio_whole": scoring / through,
        "images_per_second": n / scoring,
        "backbone_images_per_second": n / passing,
        "threads": torch.get_num_threads(),
    }

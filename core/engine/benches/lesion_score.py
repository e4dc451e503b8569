"""The lesion head's scoring against the forward pass of the bare encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.benches._paired import medians
from core.engine.detectors.lesion_head.config import LESION_PRESETS
from core.engine.detectors.lesion_head.decoder import LesionNet
from core.engine.detectors.lesion_head.lesion_head import LesionHead
from core.engine.detectors.lesion_head.score import ScoreRule
from core.engine.tensors import autocast, pick_device, to_batch


def run(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """Images of 256 px (quick: 128), from uint8 to score and map. "ratio": scoring over the encoder's pass to f_theta.

    Both in the same precision and in batches of 32. The weights are untrained: they cost what trained ones cost.
    """
    size, n, rounds = (128, 16, 3) if quick else (256, 32, 7)
    where, config = pick_device(device), LESION_PRESETS["quick"]
    images = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    encoder = build_encoder(EncoderConfig())
    head = LesionHead(LesionNet(encoder, config.width, config.k + 1), config, ScoreRule(), where)

    def score() -> None:
        head.image_score(head.predict(images))

    @torch.inference_mode()
    def bare() -> None:
        x = to_batch(images, where).contiguous(memory_format=torch.channels_last)
        with autocast(where, config.autocast):
            head.net.encoder(x).float().cpu()

    scoring, passing = medians([score, bare], rounds)
    return {
        "bench": "lesion-score",
        "ratio": scoring / passing,
        "size": size,
        "images_per_second": n / scoring,
        "encoder_images_per_second": n / passing,
        "device": str(where),
        "threads": torch.get_num_threads(),
    }

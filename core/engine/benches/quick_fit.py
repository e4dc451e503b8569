"""PaDiM and nearest patches on ImageNet features, fitted and scored in one pass of the encoder each."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import inference_copy
from core.engine.backbones.encoder import Encoder, build_encoder
from core.engine.benches._paired import medians
from core.engine.detectors.map_detector import fit_together, predict_together
from core.engine.detectors.nearest.nearest import Nearest, NearestConfig
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.tensors import to_batch


def run(quick: bool = False) -> dict[str, Any]:
    """500 images of 224 px on EfficientNet-lite0, 250 to fit and all 500 scored (quick: 60 of 128 px).

    "seconds_in_all" is what a newcomer waits for, "cpu_seconds" its work, which a busy machine alters less.
    "folding": the encoder's plain pass over that of its inference copy.
    """
    size, n = (128, 60) if quick else (224, 500)
    draw = np.random.default_rng(0)
    images = np.clip(draw.normal(120, 40, (n, size // 8, size // 8, 3)), 0, 255).astype(np.uint8)
    images = images.repeat(8, 1).repeat(8, 2)
    encoder = build_encoder(EncoderConfig(arch="efficientnet-lite0", init="auto")).eval()
    times, before = [time.perf_counter()], time.process_time()
    wanted: list[Any] = [(PaDiM, PaDiMConfig()), (Nearest, NearestConfig())]
    detectors = fit_together(encoder, images[: n // 2], wanted)
    times.append(time.perf_counter())
    for detector, prediction in zip(detectors, predict_together(detectors, images), strict=True):
        detector.image_score(prediction)
    times.append(time.perf_counter())
    work = time.process_time() - before
    folded, x = inference_copy(encoder), to_batch(images[:16], torch.device("cpu"))

    @torch.inference_mode()
    def through(which: Encoder) -> None:
        which.maps(x, (4, 8, 16))

    plain, quicker = medians([lambda: through(encoder), lambda: through(folded)], 2 if quick else 5)
    return {
        "bench": "quick-fit",
        "images": n,
        "fit_seconds": times[1] - times[0],
        "score_seconds": times[2] - times[1],
        "seconds_in_all": times[2] - times[0],
        "cpu_seconds": work,
        "folding": plain / quicker,
        "threads": torch.get_num_threads(),
    }

"""What a GPU gives: PMSACL's training at 256 px beside the bare network's, and PaDiM's scores, in images a second."""

from __future__ import annotations

from typing import Any

import numpy as np

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.benches import pretrain
from core.engine.benches._against_pass import scoring
from core.engine.detectors.base import FitContext
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.tensors import pick_device

SIZE, IMAGES, ROUNDS = 256, 512, 7


def run(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """ "ratio": images that the training takes a second, augmentation included, over those of the bare network.

    "padim_images_per_second": from uint8 of 256 px to scores. Raises ValueError where there is no GPU, unless quick:
    then a few small images on whatever device there is, which says nothing of a GPU.
    """
    where = pick_device(device)
    if where.type != "cuda" and not quick:
        raise ValueError("this benchmark measures a GPU, and there is none here")
    size, count, rounds = (64, 8, 2) if quick else (SIZE, IMAGES, ROUNDS)
    trained = pretrain.run(quick, str(where))
    images = np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    context = FitContext(device=where)
    padim = PaDiM.fit(build_encoder(EncoderConfig()).eval(), images, PaDiMConfig(), context)
    scored = scoring(padim, images, rounds)
    return {
        "ratio": 1 / trained["ratio"],
        "training_images_per_second": trained["images_per_step"] / trained["seconds"]["pmsacl"],
        "bare_images_per_second": trained["images_per_step"] / trained["seconds"]["bare"],
        "padim_images_per_second": scored["images_per_second"],
        "padim_backbone_images_per_second": scored["backbone_images_per_second"],
        "device": trained["device"],
    }

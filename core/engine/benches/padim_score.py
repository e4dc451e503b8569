"""PaDiM's scoring against the forward pass of the backbone it needs anyway."""

from __future__ import annotations

from typing import Any

import numpy as np

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.benches._against_pass import scoring
from core.engine.detectors.padim import PaDiM, PaDiMConfig


def run(quick: bool = False) -> dict[str, Any]:
    """Images of 256 px (quick: 128), from uint8 to score. "ratio": scoring over the bare pass up to layer 3."""
    size, n, rounds = (128, 16, 3) if quick else (256, 32, 7)
    images = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    padim = PaDiM.fit(build_encoder(EncoderConfig()).eval(), images, PaDiMConfig())
    return {"bench": "padim-score", **scoring(padim, images, rounds)}

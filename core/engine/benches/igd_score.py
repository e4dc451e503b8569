"""IGD's scoring in batches against one image at a time, patch by patch, as it is published; the same scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.benches._paired import medians
from core.engine.detectors.igd.config import PRESETS
from core.engine.detectors.igd.igd import IGD
from core.engine.tensors import to_batch


@torch.inference_mode()
def one_by_one(igd: IGD, images: np.ndarray) -> np.ndarray:
    """Scores (N,): each image, and each of its patches, in a pass of its own."""
    c, found = igd.config, []
    for image in images:
        x = to_batch(image[None], torch.device("cpu"))
        rec, gauss, _ = igd.whole.judge(x)
        score = c.xi * rec + (1 - c.xi) * gauss
        if igd.local is not None:
            patches = []
            for patch in igd.grid.cut(x)[0]:
                rec, gauss, _ = igd.local.judge(patch[None])
                patches.append(c.xi_local * rec + (1 - c.xi_local) * gauss)
            score = c.local_share * torch.stack(patches).max() + (1 - c.local_share) * score
        found.append(float(score))
    return np.array(found)


def run(quick: bool = False) -> dict[str, Any]:
    """Images of 256 px with 225 patches (quick: 96 px, 25). "ratio": seconds one by one over ours, on the same weights.

    The weights are untrained: they cost what trained ones cost. "difference": the largest between the two scores.
    """
    size, n, rounds = (96, 2, 1) if quick else (256, 4, 5)
    images = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    encoder = build_encoder(EncoderConfig()).eval()
    igd = IGD._build(PRESETS["paper" if not quick else "quick"], size, encoder, None, torch.device("cpu"))
    ours, theirs = medians([lambda: igd.image_score(igd.predict(images)), lambda: one_by_one(igd, images)], rounds)
    difference = np.abs(igd.image_score(igd.predict(images)) - one_by_one(igd, images)).max()
    return {
        "bench": "igd-score",
        "ratio": theirs / ours,
        "difference": float(difference),
        "patches": len(igd.grid),
        "images_per_second": n / ours,
        "threads": torch.get_num_threads(),
    }

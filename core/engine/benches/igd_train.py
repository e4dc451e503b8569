"""A training step of IGD's local model, all patches of two images at once, against two patches at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.benches._paired import medians
from core.engine.detectors.igd.config import PRESETS
from core.engine.detectors.igd.igd import IGD
from core.engine.detectors.igd.items import Items
from core.engine.detectors.igd.model import IGDModel
from core.engine.detectors.igd.train import IGDTraining
from core.engine.tensors import pick_device, to_pixels


def run(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """Two images of 256 px with 225 patches each (quick: 96 px with 25). "ratio": seconds two by two over ours.

    Two are the least, as the critic judges mixtures of two. Both do the whole step, the frozen encoder's pass and both
    optimisers; of the small steps some are timed and multiplied. What a fit keeps of the encoder's features is left
    out on both sides.
    """
    size, some, rounds = (96, 2, 1) if quick else (256, 12, 5)
    where = pick_device(device)
    images = np.random.default_rng(0).integers(0, 256, (2, size, size, 3), dtype=np.uint8)
    config = PRESETS["quick" if quick else "paper"].replace(batch=2, patches=0, epochs=1000, max_steps=0)
    igd = [IGD._build(config, size, build_encoder(EncoderConfig()).eval(), None, where) for _ in range(2)]
    whole = Items(images, igd[0].grid, where)
    single = Items(to_pixels(next(whole.all(2))), None, where)
    count = len(single)

    def training(local: IGDModel | None, items: Items) -> IGDTraining:
        assert local is not None  # at these sizes there is one
        made = IGDTraining(local, items, config)
        made.prepare()
        return made

    together, apart = training(igd[0].local, whole), training(igd[1].local, single)

    def two_by_two() -> None:
        for _ in range(some):
            apart.advance()

    ours, theirs = medians([together.advance, two_by_two], rounds, device=where)
    theirs *= count / 2 / some
    return {
        "ratio": theirs / ours,
        "patches": count,
        "step_seconds": ours,
        "two_by_two_seconds": theirs,
        "threads": torch.get_num_threads(),
    }

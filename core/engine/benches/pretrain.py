"""What a PMSACL step costs beside its network: against forward, backward and SGD of the bare ResNet-18."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torchvision

from core.engine.benches._paired import medians
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.tensors import autocast, pick_device
from core.engine.training.pretraining import Data, Pretraining


def run(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """`paper` preset at 256 px. "ratio": seconds of a PMSACL step over those of the bare network on as many images.

    Both see the same number of images of the same size, in the same precision and memory format; the bare network's
    are preloaded on the device and its loss is a mean square. Batches are smaller on a CPU. Steps are taken in turns
    and the median of each kind counts, so that other work on the machine falls on both.
    """
    where = pick_device(device)
    big = where.type == "cuda"
    config = PRETRAIN_PRESETS["paper"].replace(batch=32 if big else 4, size=128 if quick else 256)
    steps = (10 if quick else 30) if big else (2 if quick else 5)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (2 * config.batch, config.size, config.size, 3), dtype=np.uint8)
    trainer = Pretraining(config, Data(pixels, None), where)
    trainer.prepare()

    count = config.batch * (config.k + 1) * 2
    bare = torchvision.models.resnet18(weights=None).to(where, memory_format=trainer.format)
    images = torch.rand(count, 3, config.size, config.size, device=where).contiguous(memory_format=trainer.format)
    optimiser = torch.optim.SGD(bare.parameters(), config.lr, config.momentum, weight_decay=config.weight_decay)

    def bare_step() -> None:
        with autocast(where, config.autocast):
            said = bare(images)
        optimiser.zero_grad(set_to_none=True)
        said.float().square().mean().backward()
        optimiser.step()

    ours, plain = medians([trainer.advance, bare_step], steps, warm=2, device=where)
    return {
        "bench": "pretrain",
        "ratio": ours / plain,
        "seconds": {"pmsacl": ours, "bare": plain},
        "images_per_step": count,
        "size": config.size,
        "device": torch.cuda.get_device_name(where) if big else "cpu",
    }

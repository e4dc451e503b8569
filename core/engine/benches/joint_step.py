"""What a training step of the joint batch costs as processes are added: its parts for 1, 8 and 64, measured on one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from core.engine.augment.strong import Share
from core.engine.benches._paired import medians
from core.engine.objectives.base import Views
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.tensors import pick_device, to_batch
from core.engine.training.pretraining import Data, Pretraining

PROCESSES = (1, 8, 64)


def run(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """`paper` preset, as many images a process however many there are. "ratio": a step of 64 processes over one's.

    "processes": {count: {"network", "read", "views", "loss", "step"}} in seconds. Each process reads and draws for the
    whole joint batch, makes the views of its share, passes them through the network and has the whole joint loss; what
    the exchange of features and gradients takes is not in it, only how much must be sent: "gradient_mib" a step, and
    "gradient_gib_s", what a link must carry for it to take a tenth of the network's time.
    """
    where = pick_device(device)
    counts = PROCESSES[:2] if quick else PROCESSES
    batch, size, rounds = (2, 64, 2) if quick else (32 if where.type == "cuda" else 4, 256, 5)
    config = PRETRAIN_PRESETS["paper"].replace(batch=batch, size=size, centre_images=batch)
    pixels = np.random.default_rng(0).integers(0, 256, (batch * counts[-1], size, size, 3), dtype=np.uint8)
    trainer = Pretraining(config, Data(pixels, None), where)
    trainer.prepare()
    (step,) = medians([trainer.advance], rounds, warm=2, device=where)
    found = {count: _parts(trainer, pixels[: batch * count], count, rounds) for count in counts}
    network = step - sum(found[1].values())
    for parts in found.values():
        parts["network"] = network
        parts["step"] = sum(parts.values())
    weights = sum(p.numel() * p.element_size() for p in trainer.encoder.parameters())
    return {
        "ratio": found[counts[-1]]["step"] / found[1]["step"],
        "images_per_process": batch,
        "size": size,
        "processes": {str(count): parts for count, parts in found.items()},
        "gradient_mib": weights / 2**20,
        "gradient_gib_s": 2 * weights / 2**30 / (0.1 * network),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else "cpu",
    }


def _parts(trainer: Pretraining, pixels: np.ndarray, count: int, rounds: int) -> dict[str, float]:
    """Median seconds of what one of `count` processes does beside its network, on the joint batch `pixels`."""
    x = to_batch(pixels, trainer.device)
    share = Share.of(len(pixels), 0, count)
    draws = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def views() -> Views:
        return trainer.objective.views(x, draws, None, share)

    own, dim = views(), trainer.config.encoder.dim
    rows = len(own.labels)
    apart = rows * torch.arange(count, device=trainer.device)[:, None]
    joint = Views(own.images, own.labels.repeat(count), (own.partners + apart).flatten(), None)
    h = torch.randn(rows * count, trainer.encoder.features, device=trainer.device, requires_grad=True)
    z = torch.randn(rows * count, dim, device=trainer.device, requires_grad=True)

    def loss() -> None:
        trainer.objective.loss(h, z, joint, trainer.centres).loss.backward()

    names = ("read", "views", "loss")
    taken = medians([lambda: to_batch(pixels, trainer.device), views, loss], rounds, device=trainer.device)
    return dict(zip(names, taken, strict=True))

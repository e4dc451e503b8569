"""Benchmarks of training steps: PMSACL's, its joint batch's over processes, IGD's; and the gain of bf16 and a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torchvision

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.base import FitContext
from core.engine.detectors.igd.igd import IGD
from core.engine.detectors.igd.items import Items
from core.engine.detectors.igd.model import PRESETS, IGDModel
from core.engine.detectors.igd.train import IGDTraining
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.objectives.base import Views
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.tensors import autocast, gains_by_bf16, pick_device, to_batch, to_pixels
from core.engine.training.pretraining import Data, Pretraining
from tests.benches import Aim, bench, medians
from tests.benches.scoring import beside_pass


@bench("pretrain", Aim(1.10))
def pretrain(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """Time of a PMSACL training step, against forward, backward and SGD of the bare ResNet-18.

    `as-printed` preset (ResNet-18) at 256 px. "ratio": seconds of a PMSACL step over those of the bare network on as
    many images.

    Both see the same number of images of the same size, in the same precision and memory format; the bare network's
    are preloaded on the device and its loss is a mean square. Batches are smaller on a CPU. Steps are taken in turns
    and the median of each kind counts, so that other work on the machine falls on both.
    """
    where = pick_device(device)
    big = where.type == "cuda"
    config = PRETRAIN_PRESETS["as-printed"].replace(batch=32 if big else 4, size=128 if quick else 256)
    steps = (10 if quick else 30) if big else (2 if quick else 5)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (2 * config.batch, config.size, config.size, 3), dtype=np.uint8)
    trainer = Pretraining(config, Data(pixels, None), where)
    trainer.prepare()

    count = len(trainer.views().images)  # the weak views and, as the paper has it, the strong images alone
    bare = torchvision.models.resnet18(weights=None).to(where, memory_format=trainer.model.format)
    images = torch.rand(count, 3, config.size, config.size, device=where).contiguous(memory_format=trainer.model.format)
    optimiser = torch.optim.SGD(bare.parameters(), config.lr, config.momentum, weight_decay=config.weight_decay)

    def bare_step() -> None:
        with autocast(where, config.autocast):
            said = bare(images)
        optimiser.zero_grad(set_to_none=True)
        said.float().square().mean().backward()
        optimiser.step()

    ours, plain = medians([trainer.advance, bare_step], steps, warm=2, device=where)
    return {
        "ratio": ours / plain,
        "seconds": {"pmsacl": ours, "bare": plain},
        "images_per_step": count,
        "size": config.size,
        "device": torch.cuda.get_device_name(where) if big else "cpu",
    }


PROCESSES = (1, 8, 64)


@bench("joint-step")
def joint_step(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """Time of a training step of the joint batch as processes are added: its parts for 1, 8 and 64, measured on one.

    `as-printed` preset, as many images a process however many there are. "ratio": a step of 64 processes over one's.

    "processes": {count: {"network", "read", "views", "loss", "step"}} in seconds. Each process reads its share of the
    joint batch, makes its views, passes them through the network and has the whole joint loss; what the exchange of
    features and gradients takes is not in it, only how much must be sent: "gradient_mib" a step, and "gradient_gib_s",
    what a link must carry for it to take a tenth of the network's time.
    """
    where = pick_device(device)
    counts = PROCESSES[:2] if quick else PROCESSES
    batch, size, rounds = (2, 64, 2) if quick else (32 if where.type == "cuda" else 4, 256, 5)
    config = PRETRAIN_PRESETS["as-printed"].replace(batch=batch, size=size, centre_images=batch)
    pixels = np.random.default_rng(0).integers(0, 256, (batch * counts[-1], size, size, 3), dtype=np.uint8)
    trainer = Pretraining(config, Data(pixels, None), where)
    trainer.prepare()
    (step,) = medians([trainer.advance], rounds, warm=2, device=where)
    timings = {count: _joint_parts(trainer, pixels[: batch * count], count, rounds) for count in counts}
    network = step - sum(timings[1].values())
    for parts in timings.values():
        parts["network"] = network
        parts["step"] = sum(parts.values())
    weights = sum(p.numel() * p.element_size() for p in trainer.encoder.parameters())
    return {
        "ratio": timings[counts[-1]]["step"] / timings[1]["step"],
        "images_per_process": batch,
        "size": size,
        "processes": {str(count): parts for count, parts in timings.items()},
        "gradient_mib": weights / 2**20,
        "gradient_gib_s": 2 * weights / 2**30 / (0.1 * network),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else "cpu",
    }


def _joint_parts(trainer: Pretraining, pixels: np.ndarray, count: int, rounds: int) -> dict[str, float]:
    """Median seconds of what one of `count` processes does beside its network, for the joint batch `pixels`."""
    pixels = pixels[::count]
    x = to_batch(pixels, trainer.device)
    draws = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def views() -> Views:
        return trainer.objective.views(x, draws, None)

    own, dim = views(), trainer.config.encoder.dim
    rows = len(own.images)
    apart = len(own.labels) * torch.arange(count, device=trainer.device)[:, None]
    strong = None if own.strong is None else own.strong.repeat(count)
    joint = Views(own.images, own.labels.repeat(count), (own.partners + apart).flatten(), None, strong)
    h = torch.randn(rows * count, trainer.encoder.features, device=trainer.device, requires_grad=True)
    z = torch.randn(rows * count, dim, device=trainer.device, requires_grad=True)

    def loss() -> None:
        trainer.objective.loss(h, z, joint, trainer.centres).loss.backward()

    names = ("read", "views", "loss")
    taken = medians([lambda: to_batch(pixels, trainer.device), views, loss], rounds, device=trainer.device)
    return dict(zip(names, taken, strict=True))


@bench("igd-train", Aim(5, at_least=True))
def igd_train(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """A training step of IGD's local model, all patches of two images at once, against two patches at a time.

    Two images of 256 px with 225 patches each (quick: 96 px with 25). "ratio": seconds two by two over ours.

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
        igd_training = IGDTraining(local, items, config)
        igd_training.prepare()
        return igd_training

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


@bench("autocast")
def autocast_gain(quick: bool = False) -> dict[str, Any]:
    """What bf16 autocast gains: ResNet-18 training steps with it against without, in one run.

    Images a second of forward, backward and SGD at 96 px; "ratio" is with bf16 over without.
    """
    device, batch, steps = torch.device("cpu"), 32, 3 if quick else 8
    model = torchvision.models.resnet18().to(memory_format=torch.channels_last)
    images = torch.rand(batch, 3, 96, 96).contiguous(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(enabled: bool) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            features = model(images)
        optimiser.zero_grad()
        features.float().square().mean().backward()
        optimiser.step()

    with_bf16, without = medians([lambda: step(True), lambda: step(False)], steps)
    return {
        "ratio": without / with_bf16,
        "images_per_second": batch / with_bf16,
        "images_per_second_without": batch / without,
        "chosen": gains_by_bf16(device),
    }


SIZE, IMAGES, ROUNDS = 256, 512, 7


@bench("gpu", Aim(0.9, at_least=True))
def gpu(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """Images a second on a GPU: PMSACL's training at 256 px against the bare network's, and PaDiM's scoring.

    "ratio": images that the training takes a second, augmentation included, over those of the bare network.

    "padim_images_per_second": from uint8 of 256 px to scores. Raises ValueError where there is no GPU, unless quick:
    then a few small images on whatever device there is, which says nothing of a GPU.
    """
    where = pick_device(device)
    if where.type != "cuda" and not quick:
        raise ValueError("this benchmark measures a GPU, and there is none here")
    size, count, rounds = (64, 8, 2) if quick else (SIZE, IMAGES, ROUNDS)
    trained = pretrain(quick, str(where))
    images = np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    context = FitContext(device=where)
    padim = PaDiM.fit(build_encoder(EncoderConfig()).eval(), images, PaDiMConfig(), context)
    scored = beside_pass(padim, images, rounds)
    return {
        "ratio": 1 / trained["ratio"],
        "training_images_per_second": trained["images_per_step"] / trained["seconds"]["pmsacl"],
        "bare_images_per_second": trained["images_per_step"] / trained["seconds"]["bare"],
        "padim_images_per_second": scored["images_per_second"],
        "padim_backbone_images_per_second": scored["backbone_images_per_second"],
        "device": trained["device"],
    }

"""What the two processes of the tests do; `spawn` imports it anew in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.base import FitContext, predict_shared
from core.engine.detectors.igd.config import IGDConfig
from core.engine.detectors.igd.items import Grid, Items
from core.engine.detectors.igd.model import IGDModel
from core.engine.detectors.igd.train import IGDTraining
from core.engine.detectors.lesion_head.config import LesionHeadConfig
from core.engine.detectors.lesion_head.decoder import LesionNet
from core.engine.detectors.lesion_head.train import LesionTraining
from core.engine.detectors.padim import PARTS, PaDiM, PaDiMConfig
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.training.base import Training
from core.engine.training.joint import JointBatchNorm
from core.engine.training.pretraining import Data, Pretraining
from tests.engine._images import normals

COUNT, SIZE = 8, 32
SETTINGS: dict[str, dict[str, Any]] = {
    "pmsacl": {},
    "pmsacl-local": {"size": 64},
    "ccd": {"size": 64},
    "supcon": {"strong": "cutmix"},
    "simclr": {},
    "csi": {},
    "rotnet": {},
}


def config_of(name: str):
    base = {"objective": name, "size": SIZE, "batch": 4, "epochs": 1, "k": 1, "autocast": False}
    small = {"encoder.arch": "test_resnet", "encoder.hidden": 16, "encoder.dim": 16}
    return PRETRAIN_PRESETS["as-printed"].replace(**(base | small | SETTINGS[name]))


def training_of(name: str) -> Pretraining:
    """Weights and layers are float64; what goes in and the losses stay float32. Batch norm of smooth patches magnifies
    the rounding of float32, other with every number of threads: gradients would differ by up to 5e-4 (`ccd`).
    """
    config = config_of(name)
    roi = np.ones((COUNT, config.size, config.size), np.uint8)
    roi[:, : config.size // 4] = 0
    return doubled(lambda: Pretraining(config, Data(normals(COUNT, config.size), roi), torch.device("cpu")))


def doubled(build: Callable[[], Any]) -> Any:
    """The training that `build` gives, its networks built in float64."""
    torch.set_default_dtype(torch.float64)
    try:
        training = build()
    finally:
        torch.set_default_dtype(torch.float32)

    def widened(_: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(x.double() if isinstance(x, torch.Tensor) else x for x in given)

    for network in training.networks.values():
        assert all(p.dtype == torch.float64 for p in network.parameters())
        for layer in network.modules():
            if not list(layer.children()):
                layer.register_forward_pre_hook(widened)
    return training


def steps(names: list[str], count: int = 2) -> dict[str, Any]:
    """For each objective: centres, the first step's gradients by name, and the loss of each step."""
    found = {}
    for name in names:
        training = training_of(name)
        losses, gradients = advanced(training, count)
        centres = None if training.centres is None else training.centres.numpy()
        statistics = {n: b.numpy() for n, b in training.encoder.named_buffers()}
        found[name] = {"losses": losses, "gradients": gradients, "centres": centres, "statistics": statistics}
    return found


def advanced(training: Training, count: int = 2) -> tuple[list[float], dict[str, np.ndarray]]:
    """The loss of each of `count` steps, and the first one's gradients by name."""
    losses, gradients = [], {}
    for step in range(count):
        training.prepare()
        losses.append(training.advance()["loss"])
        if not step:
            for part, network in training.networks.items():
                found = {f"{part}.{n}": p.grad for n, p in network.named_parameters()}
                gradients |= {n: g.numpy().copy() for n, g in found.items() if g is not None}
    return losses, gradients


DETECTORS = ("lesion-head frozen", "lesion-head finetune", "lesion-head joint", "igd global", "igd local")


def detector_training(name: str, shared: bool) -> Training:
    """A training of a detector on a small encoder and COUNT images of 64 px."""
    kind, form = name.split()
    encoder = build_encoder(EncoderConfig(arch="test_resnet", hidden=16, dim=16))
    images, where = normals(COUNT, 64), torch.device("cpu")
    if kind == "igd":
        settings = IGDConfig(batch=4, patches=3, epochs=2, encoder="tuned", width=8, critic_width=8, autocast=False)
        grid = Grid(64, 32, 16) if form == "local" else None
        model = IGDModel(encoder, settings, 32 if grid else 64, grid is not None)
        return IGDTraining(model, Items(images, grid, where), settings, shared)
    settings = LesionHeadConfig(steps=8, batch=4, width=16, autocast=False, mode=form, k=2, families=("medmix:soft",))
    net = LesionNet(encoder, settings.width, settings.k + 1)
    return LesionTraining(net, images, None, settings, where, shared)


def detector_step(name: str, shared: bool) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses and the first gradients of a detector's training; its weights are the same in each process."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return advanced(doubled(lambda: detector_training(name, shared)))


def detector_steps(names: tuple[str, ...]) -> dict[str, Any]:
    """Of each, by all processes of the group together."""
    return {name: detector_step(name, True) for name in names}


def normalised(parts: list[np.ndarray], rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One pass of batch norm on this process's part: output, gradient of the input, running mean and variance."""
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm2d(3)
    x = torch.from_numpy(parts[rank]).requires_grad_()
    with JointBatchNorm():
        y = norm(x)
    (y**3).sum().backward()
    return y.detach().numpy(), x.grad.numpy(), norm.running_mean.numpy(), norm.running_var.numpy()


def padim(count: int) -> dict[str, np.ndarray]:
    """PaDiM fitted on `count` images, and what it says of others, by all processes of the group together."""
    encoder = build_encoder(EncoderConfig(arch="test_resnet", hidden=16, dim=16))
    settings = PaDiMConfig(channels=12, batch=3)
    fitted = PaDiM.fit(encoder, normals(count), settings, FitContext(shared=True))
    levels = {f"{part}.{i}": getattr(lv, part).numpy() for i, lv in enumerate(fitted.gaussian.levels) for part in PARTS}
    return levels | {"maps": predict_shared(fitted, normals(5, seed=1)).maps}

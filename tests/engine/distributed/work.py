"""What the two processes of the tests do; `spawn` imports it anew in each."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from core.engine.backbones.encoder import EncoderConfig, build_encoder
from core.engine.detectors.base import FitContext
from core.engine.detectors.padim import PARTS, PaDiM, PaDiMConfig
from core.engine.detectors.shared import predict_shared
from core.engine.objectives.config import PRETRAIN_PRESETS
from core.engine.training.joint_norm import JointBatchNorm
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
    return PRETRAIN_PRESETS["paper"].replace(**(base | small | SETTINGS[name]))


def training_of(name: str) -> Pretraining:
    """Weights and layers are float64; what goes in and the losses stay float32. Batch norm of smooth patches magnifies
    the rounding of float32, other with every number of threads: gradients would differ by up to 5e-4 (`ccd`).
    """
    config = config_of(name)
    roi = np.ones((COUNT, config.size, config.size), np.uint8)
    roi[:, : config.size // 4] = 0
    torch.set_default_dtype(torch.float64)
    try:
        training = Pretraining(config, Data(normals(COUNT, config.size), roi), torch.device("cpu"))
    finally:
        torch.set_default_dtype(torch.float32)

    def widened(_: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(x.double() for x in given)

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
        training, losses = training_of(name), []
        gradients: dict[str, torch.Tensor] = {}
        for step in range(count):
            training.prepare()
            losses.append(training.advance()["loss"])
            if not step:
                for part, network in training.networks.items():
                    gradients |= {f"{part}.{n}": p.grad for n, p in network.named_parameters() if p.grad is not None}
                gradients = {n: g.numpy().copy() for n, g in gradients.items()}
        centres = None if training.centres is None else training.centres.numpy()
        statistics = {n: b.numpy() for n, b in training.encoder.named_buffers()}
        found[name] = {"losses": losses, "gradients": gradients, "centres": centres, "statistics": statistics}
    return found


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

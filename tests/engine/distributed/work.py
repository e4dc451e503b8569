"""What the two processes of the tests do; `spawn` imports it anew in each."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from core.engine import processes
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.training.pretraining import Data, Pretraining, joined
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
    """A training whose batch norms are frozen, as they are of pretrained layers."""
    config = config_of(name)
    roi = np.ones((COUNT, config.size, config.size), np.uint8)
    roi[:, : config.size // 4] = 0
    training = Pretraining(config, Data(normals(COUNT, config.size), roi), torch.device("cpu"))
    training.encoder.eval()
    return training


def step(name: str) -> dict[str, Any]:
    """One step of an objective by all processes of the group: loss, centres and gradients by name."""
    training = training_of(name)
    training.prepare()
    outcome, _ = training.joint(training.views(), training.centres)
    return found(training, outcome)


def step_alone(name: str, world: int) -> dict[str, Any]:
    """The same by this process alone: the loss of the views that `world` processes make, in one batch."""
    training = training_of(name)
    training.prepare()
    parts = []
    for rank in range(world):
        with patch.object(processes, "rank", lambda rank=rank: rank), patch.object(processes, "world", lambda: world):
            views = training.views()
        parts.append((*training.features(views.images), views))
    h, z, views = joined(parts)
    return found(training, training.objective.loss(h, z, views, training.centres))


def found(training: Pretraining, outcome: Any) -> dict[str, Any]:
    outcome.loss.backward()
    gradients = {
        f"{part}.{name}": p.grad.numpy().copy()
        for part, network in training.networks.items()
        for name, p in network.named_parameters()
        if p.grad is not None
    }
    centres = None if training.centres is None else training.centres.numpy()
    return {"loss": outcome.loss.item(), "gradients": gradients, "centres": centres}


def steps(names: list[str]) -> dict[str, Any]:
    return {name: step(name) for name in names}

"""A partial training of the lesion head on disk: two networks and the optimiser, in one safetensors file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open

from core.engine.files import write_tensors

if TYPE_CHECKING:
    from core.engine.detectors.lesion_head.train import Trainer

FILE = "lesion-progress.safetensors"


def save_progress(trainer: Trainer, folder: Path) -> None:
    """Everything the next step depends on; the generators follow from (seed, step)."""
    tensors = {f"net.{k}": v for k, v in trainer.net.state_dict().items()}
    tensors |= {f"average.{k}": v for k, v in trainer.average.state_dict().items()}
    for index, state in trainer.optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{k}": torch.as_tensor(v) for k, v in state.items()}
    about = {"step": str(trainer.step), "config": trainer.config.to_json()}
    write_tensors(Path(folder) / FILE, {k: v.contiguous() for k, v in tensors.items()}, about)


def load_progress(trainer: Trainer, folder: Path) -> bool:
    """Take up a training of the same configuration; anything else in the folder is left aside."""
    path = Path(folder) / FILE
    if not path.is_file():
        return False
    with safe_open(path, "pt") as file:
        about = file.metadata() or {}
        if json.loads(about.get("config", "{}")) != json.loads(trainer.config.to_json()):
            return False
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file handle, not a dict
    for part, net in (("net.", trainer.net), ("average.", trainer.average)):
        net.load_state_dict({k.removeprefix(part): v for k, v in tensors.items() if k.startswith(part)})
    state = trainer.optimiser.state_dict()
    state["state"] = {}
    for name, value in tensors.items():
        if name.startswith("optimiser."):
            _, index, key = name.split(".", 2)
            state["state"].setdefault(int(index), {})[key] = value
    trainer.optimiser.load_state_dict(state)
    trainer.step = int(about["step"])
    return True

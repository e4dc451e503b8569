"""A training's state on disk: whole or absent, and enough of it that going on gives what not stopping would have.

`checkpoint.json` names the tensor file that belongs to it and is written last, so a kill at any moment leaves the
checkpoint before or the one after. Tensors are safetensors (network, heads, optimiser, centres), the rest is JSON;
nothing is pickled. There is no random state to keep: every draw comes from `generator(seed, ...)` of its own step.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from core.engine.files import write_json, write_tensors

NAME, HISTORY = "checkpoint.json", "history.jsonl"


class BadCheckpoint(ValueError):
    """A checkpoint that is damaged or of another training; the message says what to do."""


def generator(*numbers: int) -> torch.Generator:
    """A CPU generator of its own for each tuple of numbers (seed, purpose, step): draws do not depend on the past."""
    seed = int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
    return torch.Generator().manual_seed(seed)


def fingerprint(images: np.ndarray) -> str:
    """Of uint8 (N, S, S, 3), from its shape and up to 16 of its images: enough to tell one study from another."""
    digest = hashlib.sha256(repr(images.shape).encode())
    for i in np.linspace(0, len(images) - 1, min(16, len(images))).astype(int):
        digest.update(np.ascontiguousarray(images[i]))
    return digest.hexdigest()[:16]


def save(folder: Path, about: dict, tensors: dict[str, Tensor], lines: list[dict]) -> None:
    """Append `lines` to the history, then replace the checkpoint. `about` is JSON and holds "step"."""
    folder.mkdir(parents=True, exist_ok=True)
    old = _read(folder)
    length = old["history"] if old else 0
    with open(folder / HISTORY, "ab") as out:
        out.truncate(length)  # what a killed process wrote after its last checkpoint
        out.seek(length)
        out.write("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode())
        length = out.tell()
    name = f"checkpoint-{about['step']:08d}.safetensors"
    write_tensors(folder / name, tensors)
    write_json(folder / NAME, {**about, "tensors": name, "history": length})
    for other in folder.glob("checkpoint-*.safetensors"):
        if other.name != name:
            other.unlink(missing_ok=True)


def load(folder: Path) -> tuple[dict, dict[str, Tensor]] | None:
    """What `save` was given last, or None if there is no checkpoint. BadCheckpoint if it cannot be read."""
    about = _read(folder)
    if about is None:
        return None
    try:
        return about, load_file(folder / about["tensors"])
    except (OSError, KeyError, SafetensorError) as error:
        raise BadCheckpoint(
            f"the checkpoint in {folder} cannot be read ({error}); start again in a new folder"
        ) from error


def history(folder: Path) -> list[dict]:
    """All lines up to the last checkpoint."""
    about = _read(folder)
    if about is None or not about["history"]:
        return []
    with open(folder / HISTORY, "rb") as lines:
        return [json.loads(line) for line in lines.read(about["history"]).splitlines()]


def _read(folder: Path) -> dict | None:
    try:
        return json.loads((folder / NAME).read_text())
    except FileNotFoundError:
        return None
    except (OSError, json.JSONDecodeError) as error:
        raise BadCheckpoint(f"{folder / NAME} cannot be read ({error}); start again in a new folder") from error


def optimiser_state(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Its tensors by name; hyper-parameters are the configuration's and need no keeping."""
    return {
        f"optimiser.{index}.{key}": torch.as_tensor(value)
        for index, values in optimiser.state_dict()["state"].items()
        for key, value in values.items()
        if value is not None
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimiser_state` gave. Each tensor takes its parameter's memory format, as it had."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimiser."):
            _, index, key = name.split(".")
            like = parameters[int(index)]
            kept = torch.empty_like(like if value.shape == like.shape else value, dtype=value.dtype, device="cpu")
            state.setdefault(int(index), {})[key] = kept.copy_(value)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})

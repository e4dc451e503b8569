"""Reads, checks and hashes the weights of encoders, from a file or a run's folder."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from core.engine.backbones.config import note_of
from core.engine.files import file_sha256

# Prefixes that training code adds to the names of weights (DataParallel, Lightning, MoCo and others), longest first.
PREFIXES = (
    "module.encoder_q.",
    "model.backbone.",
    "encoder.net.",
    "backbone.",
    "encoder.",
    "module.",
    "model.",
    "net.",
)
NESTS = ("state_dict", "model_state_dict", "model", "net", "encoder", "teacher")


class BadWeights(ValueError):
    """Raised if weights are missing, damaged or belong to another network. The message says what to do."""


def from_path(path: str | Path) -> dict[str, Tensor]:
    """Reads weights from a .pth, .pt or .safetensors file or a run's folder, without running code from the file.

    Raises BadWeights if the weights are missing, damaged or of another type.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        path = path / "encoder.safetensors"
        if not path.is_file():
            raise BadWeights(f"{path.parent} holds no encoder; give the folder of a finished pre-training run")
    if not path.is_file():
        raise BadWeights(f"no weights file at {path}; set init to auto, random, imagenet, a file or a run's folder")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        if path.suffix in (".pth", ".pt"):
            return _unnest(torch.load(path, map_location="cpu", weights_only=True), path)
    except pickle.UnpicklingError as error:
        raise BadWeights(
            f"{path} is damaged or, for safety, refused because it holds more than tensors; save only its state_dict"
        ) from error
    except (OSError, RuntimeError, EOFError, SafetensorError) as error:
        raise BadWeights(f"{path} cannot be read: it is damaged or not a weights file ({error})") from error
    raise BadWeights(
        f"{path.name} must be a .pth, .pt or .safetensors file, or for timm's vision transformers an .npz file"
    )


def describe_weights(path: str | Path) -> dict[str, str]:
    """Returns the description of a weights file that a user added (arch, licence, sha256), or {} for other files.

    Raises BadWeights if the file has changed since it was added.
    """
    file = Path(path).expanduser()
    note = note_of(file)
    if not note.is_file():
        return {}
    noted: dict[str, str] = json.loads(note.read_text())
    if file_sha256(file) != noted["sha256"]:
        raise BadWeights(f"{path} is not the file that was added (its SHA-256 differs): remove it and add it again")
    return noted


def _unnest(nested: object, path: Path) -> dict[str, Tensor]:
    while isinstance(nested, dict) and not any(isinstance(v, Tensor) for v in nested.values()):
        inner = next((nested[name] for name in NESTS if isinstance(nested.get(name), dict)), None)
        if inner is None:
            break
        nested = inner
    if not isinstance(nested, dict) or not any(isinstance(v, Tensor) for v in nested.values()):
        raise BadWeights(f"{path} holds no named weights; save a state_dict")
    return {name: value for name, value in nested.items() if isinstance(value, Tensor)}


def plain(state: dict[str, Tensor], first: str) -> dict[str, Tensor]:
    """Removes the prefix that training code added to the names of weights; `first` is a name without prefix."""
    for mark in (first, "_conv_stem.weight"):
        for prefix in ("", *PREFIXES):
            if f"{prefix}{mark}" in state:
                return {n[len(prefix) :]: v for n, v in state.items() if n.startswith(prefix)}
    return state


def digest(state: dict[str, Tensor]) -> str:
    """Returns the SHA-256, in hexadecimal, of the names, types, shapes and values of weights on any device."""
    sha = hashlib.sha256()
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        sha.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        sha.update(value.view(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()

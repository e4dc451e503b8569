"""Where an encoder's first weights come from: torchvision, a local file, or an earlier run's folder."""

from __future__ import annotations

import pickle
from pathlib import Path
from urllib.error import URLError

import torch
import torchvision
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

# Names that other training codes put before ResNet's own (DataParallel, Lightning, MoCo and the like), longest first.
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
NESTS = ("state_dict", "model_state_dict", "model", "net", "encoder")


class BadWeights(ValueError):
    """Weights that are absent, damaged or of another network; the message says what to do."""


def imagenet(arch: str) -> dict[str, Tensor]:
    """torchvision's default ImageNet weights for `arch`: from its cache, or downloaded once."""
    choice = torchvision.models.get_model_weights(arch).DEFAULT
    try:
        return choice.get_state_dict(progress=False, check_hash=True)
    except (URLError, OSError, RuntimeError) as error:
        cache = Path(torch.hub.get_dir()) / "checkpoints" / Path(choice.url).name
        raise BadWeights(
            f"the ImageNet weights could not be downloaded ({error}). "
            f"On a machine with network access fetch {choice.url}, then "
            f"either put the file at {cache} or give its path as the encoder's init"
        ) from error


def from_path(path: str | Path) -> dict[str, Tensor]:
    """State of a .pth/.pt or .safetensors file, or of a run's folder. No code in a file is ever run (weights_only)."""
    path = Path(path).expanduser()
    if path.is_dir():
        path = path / "encoder.safetensors"
        if not path.is_file():
            raise BadWeights(f"{path.parent} holds no encoder; give the folder of a finished pre-training run")
    if not path.is_file():
        raise BadWeights(f"no weights file at {path}; an encoder's init is random, imagenet, a file or a run's folder")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        if path.suffix in (".pth", ".pt"):
            return _unnest(torch.load(path, map_location="cpu", weights_only=True), path)
    except pickle.UnpicklingError as error:
        raise BadWeights(
            f"{path} is damaged, or holds more than tensors and is not opened for safety; save its state_dict alone"
        ) from error
    except (OSError, RuntimeError, EOFError, SafetensorError) as error:
        raise BadWeights(f"{path} cannot be read: it is damaged or not a weights file ({error})") from error
    raise BadWeights(f"{path.name}: weights are read from .pth, .pt and .safetensors files")


def _unnest(found: object, path: Path) -> dict[str, Tensor]:
    while isinstance(found, dict) and not any(isinstance(v, Tensor) for v in found.values()):
        inner = next((found[name] for name in NESTS if isinstance(found.get(name), dict)), None)
        if inner is None:
            break
        found = inner
    if not isinstance(found, dict) or not any(isinstance(v, Tensor) for v in found.values()):
        raise BadWeights(f"{path} holds no weights by name; save a state_dict")
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def fill(encoder: nn.Module, state: dict[str, Tensor], source: str) -> None:
    """Put `state` into the encoder's backbone, and into its head where names and shapes agree.

    Raises BadWeights, naming a layer, unless every weight of the backbone is there with its own shape.
    """
    state = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    if not any(name == "conv1.weight" for name in state):
        for prefix in PREFIXES:
            if f"{prefix}conv1.weight" in state:
                heads = {n: v for n, v in state.items() if n.startswith("head.")}
                state = {n[len(prefix) :]: v for n, v in state.items() if n.startswith(prefix)} | heads
                break
    with torch.no_grad():
        for name, own in encoder.net.state_dict().items():
            if name.endswith("num_batches_tracked"):
                continue
            if name not in state:
                raise BadWeights(f"{source} is not a {encoder.config.arch}: it has no {name}")
            if state[name].shape != own.shape:
                raise BadWeights(
                    f"{source} is not a {encoder.config.arch}: "
                    f"its {name} is {tuple(state[name].shape)}, not {tuple(own.shape)}"
                )
            own.copy_(state[name])
        head = {f"head.{name}": own for name, own in encoder.head.state_dict().items()}
        # A head is taken whole or not at all: half of another's would be neither random nor trained.
        if all(name in state and state[name].shape == own.shape for name, own in head.items()):
            for name, own in head.items():
                own.copy_(state[name])

"""The encoder f_theta: ResNet-18 and an MLP head to Z = R^128 (Sec. Implementation details).

Input is always float32 (B, 3, S, S) in [0, 1]; the encoder normalises inside, so no caller has to know how.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torchvision
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from core.engine.backbones import weights
from core.engine.config import BadConfig, Config
from core.engine.files import write_json, write_tensors

ARCHES = ("resnet18",)
LAYERS = ("stem", "layer1", "layer2", "layer3", "layer4")
WEIGHTS, ABOUT, CENTRES = "encoder.safetensors", "encoder.json", "centres.safetensors"


@dataclass(frozen=True)
class EncoderConfig(Config):
    """arch: backbone. dim: size of Z (128 in the paper). hidden: width of the MLP head (not in the paper; 512 as CCD).

    init: 'random' | 'imagenet' | a local .pth/.safetensors file | the folder of an earlier run.
    seed: of the random parts (all of it, or the head alone when the backbone is given).
    """

    arch: str = "resnet18"
    dim: int = 128
    hidden: int = 512
    init: str = "random"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.arch not in ARCHES:
            raise BadConfig(f"no encoder is called {self.arch!r}; there are: {', '.join(ARCHES)}")
        if self.dim < 1 or self.hidden < 1:
            raise BadConfig("an encoder's dim and hidden must be at least 1")
        if not self.init:
            raise BadConfig("an encoder's init is random, imagenet, a weights file or the folder of an earlier run")


class Encoder(nn.Module):
    """f_theta = project(backbone(x)). Weights are random until `build_encoder` or `load_encoder` fills them."""

    def __init__(self, config: EncoderConfig | None = None) -> None:
        super().__init__()
        self.config = config or EncoderConfig()
        self.net = torchvision.models.get_model(self.config.arch, weights=None)
        self.features = self.net.fc.in_features  # 512
        self.net.fc = nn.Identity()
        self.head = nn.Sequential(
            nn.Linear(self.features, self.config.hidden),
            nn.ReLU(inplace=True),
            nn.Linear(self.config.hidden, self.config.dim),
        )
        # ImageNet's statistics whatever the init: an encoder can then go on from any other.
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1), persistent=False)

    def normalise(self, x: Tensor) -> Tensor:
        """(B, 3, S, S) in [0, 1] -> the same shape, ImageNet mean 0 and standard deviation 1 per channel."""
        return (x - self.mean) / self.std

    def maps(self, x: Tensor, upto: str = "layer4") -> dict[str, Tensor]:
        """Feature maps by layer, `stem` (B, 64, S/2, S/2) to `layer4` (B, 512, S/32, S/32).

        upto: the deepest layer wanted; what lies above it is not computed.
        """
        if upto not in LAYERS:
            raise ValueError(f"no layer is called {upto!r}; there are: {', '.join(LAYERS)}")
        net = self.net
        out = {"stem": net.relu(net.bn1(net.conv1(self.normalise(x))))}
        if upto == "stem":
            return out
        h = net.maxpool(out["stem"])
        for name in LAYERS[1 : LAYERS.index(upto) + 1]:
            out[name] = h = getattr(net, name)(h)
        return out

    def backbone(self, x: Tensor) -> Tensor:
        """(B, 3, S, S) -> (B, 512): layer4, averaged over the image."""
        return self.net(self.normalise(x))

    def project(self, h: Tensor) -> Tensor:
        """(B, 512) -> (B, 128), the space Z of the losses."""
        return self.head(h)

    def forward(self, x: Tensor) -> Tensor:
        """f_theta(x): (B, 3, S, S) -> (B, 128)."""
        return self.project(self.backbone(x))


def build_encoder(config: EncoderConfig) -> Encoder:
    """A new encoder as `config` says; the global random state is left as it was.

    Raises weights.BadWeights (a ValueError) with what to do when the weights cannot be had.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        encoder = Encoder(config)
    if config.init == "imagenet":
        weights.fill(encoder, weights.imagenet(config.arch), "torchvision's ImageNet weights")
    elif config.init != "random":
        weights.fill(encoder, weights.from_path(config.init), config.init)
    return encoder


def save_encoder(
    encoder: Encoder,
    folder: Path | str,
    extra: dict | None = None,
    centres: Tensor | None = None,
    half: bool = False,
) -> None:
    """Write encoder.safetensors, encoder.json (configuration and `extra`) and, when given, centres (k+1, 128).

    half: weights in float16, half the size, for an encoder that is looked at and not gone on from.
    encoder.json comes last, so a folder that has it is complete.
    """
    folder = Path(folder)
    if centres is not None:
        write_tensors(folder / CENTRES, {"centres": centres.to(torch.float32)})
    state = encoder.state_dict()
    if half:
        state = {name: value.half() if value.is_floating_point() else value for name, value in state.items()}
    write_tensors(folder / WEIGHTS, state)
    write_json(folder / ABOUT, {"encoder": encoder.config.to_dict(), "extra": extra or {}})


def load_encoder(folder: Path | str, device: torch.device | str = "cpu") -> Encoder:
    """The encoder saved in `folder`, on `device`, in eval mode. BadWeights if there is none or it is damaged."""
    folder = Path(folder)
    if not (folder / ABOUT).is_file():
        raise weights.BadWeights(f"{folder} holds no encoder ({ABOUT}); give the folder of a finished pre-training run")
    try:
        config = EncoderConfig.from_dict(json.loads((folder / ABOUT).read_text())["encoder"])
        with torch.random.fork_rng(devices=[]):  # the weights made here are all replaced
            encoder = Encoder(config)
        encoder.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, KeyError, RuntimeError, SafetensorError, json.JSONDecodeError) as error:
        raise weights.BadWeights(f"the encoder in {folder} cannot be read: {error}") from error
    return encoder.to(device).eval()


def load_centres(folder: Path | str) -> Tensor | None:
    """Centres c_0..c_k saved beside an encoder, float32 (k+1, 128), or None if that run had none."""
    path = Path(folder) / CENTRES
    return load_file(path)["centres"] if path.is_file() else None

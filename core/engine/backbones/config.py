"""Options of the encoder f_theta. This module does not import torch, so that forms and flags load quickly."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from core.engine.config import BadConfig, Config, option
from core.engine.registry import BACKBONES

STRIDES = (2, 4, 8, 16, 32)  # strides of the feature maps of every backbone


def is_backbone(name: str) -> bool:
    """Returns whether `name` is a registered backbone or, if timm is installed, a model of timm."""
    if name in BACKBONES.names():
        return True
    if find_spec("timm") is None:
        return False
    import timm

    return timm.is_model(name)


@dataclass(frozen=True)
class EncoderConfig(Config):
    """Options of the encoder: a backbone, followed by an MLP head that projects its features to the space Z."""

    arch: str = option(
        "resnet18",
        "ResNet-18 in the paper (implementation details). If timm is installed, any of its models can be used.",
        offered=BACKBONES.names,
        label="Backbone",
        group="Encoder",
    )
    dim: int = option(128, "128 in the paper.", low=1, high=65536, slider=(8, 1024), label="Dimension of Z")
    hidden: int = option(512, "512 as in CCD.", low=1, high=65536, slider=(8, 4096), label="Hidden layer of the head")
    unit: bool = option(
        False,
        "Projections are scaled to length 1 before centres and losses are computed, as in CCD's code.",
        label="Z on the unit sphere",
    )
    init: str = option(
        "random",
        "auto: installed ImageNet weights of this backbone or, if there are none, EfficientNet-lite0 instead. "
        "A weights file (.pth or .safetensors) or the folder of an earlier run is also possible.",
        offered=lambda: ("random", "imagenet", "auto"),
        label="Start from",
    )
    seed: int = option(
        0, "Seed of all random weights: the head's and, unless pretrained, the backbone's.", slider=(0, 2**31 - 1),
        label="Seed of the weights",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_backbone(self.arch):
            raise BadConfig(
                f"no encoder is called {self.arch!r}; choose from: {', '.join(BACKBONES.names())}, or a model of timm"
            )
        if not self.init:
            raise BadConfig("an encoder's init must be auto, random, imagenet, a weights file or the folder of a run")


def note_of(file: Path) -> Path:
    """Returns the path of the JSON file that describes a weights file (architecture, licence, SHA-256)."""
    return file.with_name(f"{file.name}.json")

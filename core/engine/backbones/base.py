"""Backbones: networks with feature maps at strides 2, 4, 8, 16 and 32.

    BACKBONES.register("resnet18", title="ResNet-18")(partial(ResNet, "resnet18"))

A `Backbone` describes a network and is not a module. The network is built by its library without changes, so that its
weights have the names of published files.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from core.engine.backbones import weights
from core.engine.backbones.config import STRIDES

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Source:
    """A source of pretrained weights: its name for users, the pip package that contains them or "", and their URL."""

    name: str
    package: str = ""
    url: str = ""


@dataclass(frozen=True)
class Pretrained:
    """Pretrained weights by the network's parameter names, with their source and licence as texts for users."""

    state: dict[str, Tensor]
    source: str
    licence: str


class Backbone(abc.ABC):
    """A network architecture: builds the network, computes its feature maps, and reads its pretrained weights.

    mean, std: normalisation of the input, per channel, for values in [0, 1]. size: side in pixels of the images of the
    ImageNet training. licence, sources: of the pretrained weights; sources on this machine come first.
    """

    name: str
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    size: int = 224
    licence: str = ""
    sources: tuple[Source, ...] = ()

    @abc.abstractmethod
    def build(self) -> nn.Module:
        """Builds the network with random weights, without a classifier."""

    @abc.abstractmethod
    def widths(self, net: nn.Module) -> dict[int, int]:
        """Returns the number of channels of the feature map at each of STRIDES, by stride."""

    @abc.abstractmethod
    def maps(self, net: nn.Module, x: Tensor, strides: tuple[int, ...]) -> dict[int, Tensor]:
        """Computes feature maps: x (B, 3, S, S), normalised -> {stride: (B, C, S / stride, S / stride)} of `strides`.

        strides: from fine to coarse, like the result. Layers beyond the coarsest requested stride are not computed.
        """

    def onwards(self, net: nn.Module, h: Tensor, stride: int, strides: tuple[int, ...]) -> dict[int, Tensor] | None:
        """Computes the maps at `strides`, all coarser than `stride`, from the map h (B, C, h, w) at `stride`.

        Returns None if the network cannot compute coarser maps from a single map.
        """
        return None

    @abc.abstractmethod
    def imagenet(self) -> Pretrained:
        """Returns ImageNet weights from disk or downloaded. Raises weights.BadWeights if they are not available."""

    def bundled(self) -> Pretrained | None:
        """Returns pretrained weights that are on this machine, such as those of a package, or None."""
        return None

    def read(self, path: str | Path, net: nn.Module) -> dict[str, Tensor]:
        """Reads weights from a file or a run's folder. Raises weights.BadWeights if they are absent or damaged."""
        return weights.from_path(path)

    def rename(self, state: dict[str, Tensor], net: nn.Module) -> dict[str, Tensor]:
        """Converts weights that other implementations of this network saved to the names and shapes of `net`."""
        return state


def in_order(strides: Sequence[int]) -> bool:
    """Returns whether `strides` is a non-empty selection from STRIDES, ordered from fine to coarse."""
    return bool(strides) and [s for s in STRIDES if s in strides] == list(strides)


def ordered(strides: Iterable[int]) -> tuple[int, ...]:
    """Returns `strides` from fine to coarse, without duplicates. Raises ValueError if empty or not all in STRIDES."""
    ordered = tuple(sorted(set(strides)))
    if not ordered or not set(ordered) <= set(STRIDES):
        raise ValueError(f"a backbone has maps at strides {', '.join(map(str, STRIDES))}, not {ordered}")
    return ordered

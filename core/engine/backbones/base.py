"""Backbones: networks with feature maps at strides 2, 4, 8, 16 and 32.

    BACKBONES.register("resnet18", title="ResNet-18")(partial(ResNet, "resnet18"))

A `Backbone` describes a network and is not a module. It lets the library build the network without changes, so that the
names of weights are those in published files.
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
    """Source of pretrained weights: its display name and, unless "", the pip package and URL that provide them."""

    name: str
    package: str = ""
    url: str = ""


@dataclass(frozen=True)
class Pretrained:
    """Pretrained weights, keyed by the network's parameter names, and the display names of source and licence."""

    state: dict[str, Tensor]
    source: str
    licence: str


class Backbone(abc.ABC):
    """A network architecture: builds the network, computes its feature maps, and reads its pretrained weights.

    Attributes:
        name: Name of the architecture.
        mean: Mean of each input channel, in [0, 1], for normalisation.
        std: Standard deviation of each input channel, for normalisation.
        size: Side length in pixels of the images with which the network was trained on ImageNet.
        licence: Licence of the pretrained weights.
        sources: Sources of the pretrained weights. Sources on this machine come first.
    """

    name: str
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    size: int = 224
    licence: str = ""
    sources: tuple[Source, ...] = ()

    @abc.abstractmethod
    def build(self) -> nn.Module:
        """Builds the network with random weights and without a classifier."""

    @abc.abstractmethod
    def widths(self, net: nn.Module) -> dict[int, int]:
        """Returns the number of channels of the feature map at each stride in STRIDES."""

    @abc.abstractmethod
    def maps(self, net: nn.Module, x: Tensor, strides: tuple[int, ...]) -> dict[int, Tensor]:
        """Computes a feature map `(B, C, S / stride, S / stride)` per stride, from normalised images x `(B, 3, S, S)`.

        `strides` must be ordered from fine to coarse; the result has the same order. Layers after the coarsest
        requested map are not computed.
        """

    def onwards(self, net: nn.Module, h: Tensor, stride: int, strides: tuple[int, ...]) -> dict[int, Tensor] | None:
        """Computes the maps at the coarser `strides` from the map h `(B, C, h, w)` at `stride`.

        Returns the maps by stride, or None if the network cannot compute coarser maps from a single map.
        """
        return None

    @abc.abstractmethod
    def imagenet(self) -> Pretrained:
        """Loads or downloads the ImageNet weights. Raises BadWeights if they are not available."""

    def bundled(self) -> Pretrained | None:
        """Returns pretrained weights that are already on this machine, such as in a package, or None."""
        return None

    def read(self, path: str | Path, net: nn.Module) -> dict[str, Tensor]:
        """Reads weights from a file or a run's folder. Raises BadWeights if they are missing or damaged."""
        return weights.from_path(path)

    def rename(self, state: dict[str, Tensor], net: nn.Module) -> dict[str, Tensor]:
        """Converts weights from other implementations of this network to the names and shapes used in `net`."""
        return state


def in_order(strides: Sequence[int]) -> bool:
    """Returns whether `strides` is a non-empty selection from STRIDES, ordered from fine to coarse."""
    return bool(strides) and [s for s in STRIDES if s in strides] == list(strides)


def ordered(strides: Iterable[int]) -> tuple[int, ...]:
    """Returns `strides` from fine to coarse, without duplicates. Raises ValueError if `strides` is empty or invalid."""
    ordered = tuple(sorted(set(strides)))
    if not ordered or not set(ordered) <= set(STRIDES):
        raise ValueError(f"a backbone has maps at strides {', '.join(map(str, STRIDES))}, not {ordered}")
    return ordered

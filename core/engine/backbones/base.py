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
    """A source of pretrained weights. name: shown to users. package: the pip package that contains them, if any."""

    name: str
    package: str = ""
    url: str = ""


@dataclass(frozen=True)
class Pretrained:
    """Pretrained weights by the network's names, their source in words, and their licence."""

    state: dict[str, Tensor]
    source: str
    licence: str


class Backbone(abc.ABC):
    """The description of a network: how it is built, how its maps are computed, where its weights come from.

    mean, std: normalisation of the input, per channel, for values in [0, 1]. size: image side of the pre-training.
    licence: the pretrained weights' licence. sources: where they are available, those on this machine first.
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
        """Returns the number of channels of the map at each of STRIDES."""

    @abc.abstractmethod
    def maps(self, net: nn.Module, x: Tensor, strides: tuple[int, ...]) -> dict[int, Tensor]:
        """Computes feature maps: x (B, 3, S, S), normalised -> {stride: (B, C, S / stride, S / stride)} of `strides`.

        They are ordered from fine to coarse. Layers beyond the coarsest requested stride are not computed.
        """

    def onwards(self, net: nn.Module, h: Tensor, stride: int, strides: tuple[int, ...]) -> dict[int, Tensor] | None:
        """Computes the maps of `strides`, all coarser than `stride`, from the map h (B, C, h, w) at that one.

        Returns None if the network cannot continue from a map alone.
        """
        return None

    @abc.abstractmethod
    def imagenet(self) -> Pretrained:
        """Returns pretrained weights, from disk or downloaded. Raises weights.BadWeights, which says what to do."""

    def bundled(self) -> Pretrained | None:
        """Returns pretrained weights that are on this machine, such as those of a package, or None."""
        return None

    def read(self, path: str | Path, net: nn.Module) -> dict[str, Tensor]:
        """Reads the weights of a file, or of a run's folder. Raises weights.BadWeights, which says what to do."""
        return weights.from_path(path)

    def rename(self, state: dict[str, Tensor], net: nn.Module) -> dict[str, Tensor]:
        """Renames weights of the same network in other code to the names and shapes of `net`."""
        return state


def in_order(strides: Sequence[int]) -> bool:
    """Returns whether `strides` are some of STRIDES, at least one, from fine to coarse."""
    return bool(strides) and [s for s in STRIDES if s in strides] == list(strides)


def ordered(strides: Iterable[int]) -> tuple[int, ...]:
    """Returns `strides` from fine to coarse. Raises ValueError if one is not in STRIDES."""
    ordered = tuple(sorted(set(strides)))
    if not ordered or not set(ordered) <= set(STRIDES):
        raise ValueError(f"a backbone has maps at strides {', '.join(map(str, STRIDES))}, not {ordered}")
    return ordered

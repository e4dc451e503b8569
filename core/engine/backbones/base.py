"""Backbones: networks that give feature maps at strides 2, 4, 8, 16 and 32, whatever their layers' names.

    @BACKBONES.register("resnet18", title="ResNet-18")
    def resnet18() -> Backbone: ...

A `Backbone` describes a network and is no module itself. The network stays as its library builds it, so that its
weights keep the names that published files have.
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
    """A source of pretrained weights. name: for people. package: the pip package that carries them, if any."""

    name: str
    package: str = ""
    url: str = ""


@dataclass(frozen=True)
class Pretrained:
    """Pretrained weights: `state` by the network's own names; where they come from, in words; their licence."""

    state: dict[str, Tensor]
    source: str
    licence: str


class Backbone(abc.ABC):
    """The description of one network: how it is built, how its maps are read, where its weights come from.

    mean, std: of the input, per channel, for values in [0, 1]. size: image side that the weights were trained at.

    licence: of the pretrained weights. sources: where they can be had, those on this machine's disk first.
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

        They come fine to coarse. What lies deeper than the coarsest stride asked for is not computed.
        """

    def onwards(self, net: nn.Module, h: Tensor, stride: int, strides: tuple[int, ...]) -> dict[int, Tensor] | None:
        """Computes the maps of `strides`, all coarser than `stride`, from the map h (B, C, h, w) at that one.

        None where the network has more to hand on from one stride to the next than that map.
        """
        return None

    @abc.abstractmethod
    def imagenet(self) -> Pretrained:
        """Returns pretrained weights, from disk or downloaded. Raises weights.BadWeights, saying what to do."""

    def bundled(self) -> Pretrained | None:
        """Returns pretrained weights that are on this machine, such as those of a package; None if there are none."""
        return None

    def read(self, path: str | Path, net: nn.Module) -> dict[str, Tensor]:
        """Reads the weights of a file, or of a run's folder. Raises weights.BadWeights, saying what to do."""
        return weights.from_path(path)

    def rename(self, state: dict[str, Tensor], net: nn.Module) -> dict[str, Tensor]:
        """Renames another code's weights of the same network -> the names and shapes of `net`."""
        return state


def in_order(strides: Sequence[int]) -> bool:
    """Returns whether `strides` are some of STRIDES, at least one, from fine to coarse."""
    return bool(strides) and [s for s in STRIDES if s in strides] == list(strides)


def ordered(strides: Iterable[int]) -> tuple[int, ...]:
    """Returns `strides` from fine to coarse. Raises ValueError on one that is not of STRIDES."""
    ordered = tuple(sorted(set(strides)))
    if not ordered or not set(ordered) <= set(STRIDES):
        raise ValueError(f"a backbone has maps at strides {', '.join(map(str, STRIDES))}, not {ordered}")
    return ordered

"""Configuration of an ensemble: its members, and the weights of their maps and of readings (partial scores)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import Self

from core.engine.backbones.encoder import ClassHead
from core.engine.config import BadConfig, Config, option
from core.engine.registry import DETECTORS

ALIGNED = ("padim", "blend")  # detectors that take the position into account, directly or through a member
ALIKE = (0.45, 0.75)  # fraction of the features' variance that the position explains; RESULTS.md has measured values
OWN = ("colour", "mean", "top")  # readings that are not scores of members


@dataclass(frozen=True)
class Member(Config):
    """Detector in an ensemble, with its settings."""

    detector: str  # name in the registry
    settings: Config  # instance of the detector's Config
    side: int = 0  # side length in pixels to which larger images are resized; 0 for no resizing
    blur: float = 0.0  # Gaussian sigma in pixels at 256 x 256, for maps with less detail than their grid could show

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        settings = DETECTORS.get(values["detector"]).Config.from_dict(values["settings"])
        return cls(**{**values, "settings": settings})


@dataclass(frozen=True)
class EnsembleConfig(Config):
    """Configuration of an ensemble, whose score is the weighted sum of standardised readings.

    A reading is a partial score of an image. Possible readings are the scores of members, `mean` (the mean of the
    summed map), `top` (the mean of the highest twentieth of the summed map), and `colour` (the distance of the image's
    mean colour from the mean colours of normal images).
    """

    members: dict[str, Member]
    maps: dict[str, float]  # weight of each member's standardised map in the sum; other members' maps are not used
    readings: dict[str, float]  # weight of each reading in the score
    # "map" and "score" if the second of two members gets a learnt weight there, from lesions pasted into held-out data
    learn: tuple[str, ...] = ()
    unseen: float = option(0.15, above=0, below=0.9)  # fraction of normal images held out to set all scales, at least 4
    by_region: bool = True  # whether whole images and regions of interest have separate scales; if not, the regions'
    stride: int = option(8, low=1)  # stride of the grid on which maps are added
    seen: float = option(0.0, low=0, below=1)  # minimum fraction of images that show a position; the map is 0 elsewhere
    aligned: dict[str, float] = field(default_factory=dict)  # largest factors of weights for `aligned_weights`
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(re.fullmatch(r"\w[\w-]{0,39}", name) for name in self.members):  # because names are names of folders
            raise BadConfig("a member's name must have 1 to 40 letters, digits, _ and -")
        if not self.maps or not set(self.maps) <= set(self.members):
            raise BadConfig(f"maps must name some of {', '.join(self.members)}, not {', '.join(self.maps)}")
        if not self.readings or not set(self.readings) <= {*self.members, *OWN}:
            raise BadConfig(f"readings must be in {', '.join([*self.members, *OWN])}, not {', '.join(self.readings)}")
        if min(*self.maps.values(), *self.readings.values()) < 0:
            raise BadConfig("weights must be 0 or more")
        if not set(self.aligned) <= {n for n in self.maps if self.members[n].detector in ALIGNED}:
            raise BadConfig(f"aligned must name members that are {' or '.join(ALIGNED)} and listed in maps")
        if min(self.aligned.values(), default=1.0) < 1:
            raise BadConfig("the factors in aligned must be 1 or more")
        if self.learn and (len(self.members) != 2 or not set(self.learn) <= {"map", "score"}):
            raise BadConfig("learn needs exactly two members, and may name map and score")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        members = {name: Member.from_dict(member) for name, member in values["members"].items()}
        return cls(**{**values, "members": members, "learn": tuple(values.get("learn", ()))})


def suited(config: EnsembleConfig, head: ClassHead | None) -> EnsembleConfig:
    """Adapts the members that use the encoder's class head to `head`, or removes them if `head` is None.

    With a class head, images are resized for these members to the side length used in pre-training. If they are
    removed, their weight is distributed over the other readings.
    """
    reads = [name for name, member in config.members.items() if member.detector == "class-head"]
    if not reads:
        return config
    if head is not None:
        resized = {name: replace(config.members[name], side=head.side) for name in reads}
        return replace(config, members={**config.members, **resized})
    members = {name: member for name, member in config.members.items() if name not in reads}
    readings = {name: weight for name, weight in config.readings.items() if name not in reads}
    factor = sum(config.readings.values()) / sum(readings.values())
    return replace(config, members=members, readings={name: weight * factor for name, weight in readings.items()})


def aligned_weights(weights: dict[str, float], aligned: dict[str, float], shares: dict[str, float]) -> dict[str, float]:
    """Raises the weights of members in `aligned` if normal images are aligned. The sum of all weights stays the same.

    If objects always have the same pose, what is normal depends on the position. Only PaDiM, and ensembles that contain
    a PaDiM, take the position into account.

    Args:
        weights: Weight of each member by name.
        aligned: Largest factor of a member's weight, by name. The factor grows linearly with the alignment of the
            images, from 1 at ALIKE[0] to this value at ALIKE[1].
        shares: Alignment of the normal images, as `PaDiM.alignment` returns it, by name of the member.
    """
    low, high = ALIKE
    grown = {
        name: weight * (1 + (aligned.get(name, 1.0) - 1) * min(max((shares.get(name, 0.0) - low) / (high - low), 0), 1))
        for name, weight in weights.items()
    }
    factor = sum(weights.values()) / sum(grown.values()) if any(grown.values()) else 1.0
    return {name: weight * factor for name, weight in grown.items()}


def equal(names: Iterable[str]) -> dict[str, float]:
    """Returns equal weights by name, which sum to 1."""
    listed = list(names)
    return dict.fromkeys(listed, 1 / len(listed))

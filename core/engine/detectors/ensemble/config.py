"""Configuration of an ensemble: its members, and the weights of their maps and readings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import Self

from core.engine.backbones.encoder import ClassHead
from core.engine.config import BadConfig, Config, option
from core.engine.registry import DETECTORS

ALIGNED = ("padim", "blend")  # detectors that take the position into account, alone or by a member
ALIKE = (0.45, 0.75)  # share of the features' variance that the position explains; RESULTS.md has measured values
OWN = ("colour", "mean", "top")  # readings that the ensemble computes itself


@dataclass(frozen=True)
class Member(Config):
    """A detector in an ensemble.

    detector: its name in the registry. settings: an instance of that detector's Config. side: larger images are resized
    to this many pixels for it; 0 for no resizing. blur: Gaussian sigma of its map, in pixels at 256 x 256, for maps
    with less detail than their grid could show.
    """

    detector: str
    settings: Config
    side: int = 0
    blur: float = 0.0

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        settings = DETECTORS.get(values["detector"]).Config.from_dict(values["settings"])
        return cls(**{**values, "settings": settings})


@dataclass(frozen=True)
class EnsembleConfig(Config):
    """Configuration of an ensemble. members: by name. maps: weight of each member's standardised map in the sum; the
    maps of unlisted members are not used.

    readings: weight of each standardised reading in the score. A reading is one number per image: the score of the
    member with that name, or one that the ensemble computes: `mean` and `top`, the mean and the highest twentieth of
    the summed map, and `colour`, the distance of the image's mean colour from those of normal images. learn: which of
    "map" and "score" get a learnt weight for the second of two members (the first has weight 1), from lesions pasted
    into held-out normals. unseen: share of the normal images, at least 4, that are held out from all members and set
    all scales. by_region: whether readings of the whole image and of its region of interest have separate scales;
    otherwise both use the region's. stride: stride of the grid on which maps are added. seen: the map is 0 at positions
    that are inside the region of interest in less than this share of the images. aligned: factors by which the weights
    of members of the kinds ALIGNED grow if normal images show the same thing at the same position (`aligned_weights`),
    in the map and, if they are readings, in the score.
    """

    members: dict[str, Member]
    maps: dict[str, float]
    readings: dict[str, float]
    learn: tuple[str, ...] = ()
    unseen: float = option(0.15, above=0, below=0.9)
    by_region: bool = True
    stride: int = option(8, low=1)
    seen: float = option(0.0, low=0, below=1)
    aligned: dict[str, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(re.fullmatch(r"\w[\w-]{0,39}", name) for name in self.members):  # each is the name of a folder
            raise BadConfig("a member's name has 1 to 40 letters, digits, _ and -")
        if not self.maps or not set(self.maps) <= set(self.members):
            raise BadConfig(f"maps names some of the members {', '.join(self.members)}, not {', '.join(self.maps)}")
        if not self.readings or not set(self.readings) <= {*self.members, *OWN}:
            raise BadConfig(f"readings are some of {', '.join([*self.members, *OWN])}, not {', '.join(self.readings)}")
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
    """Adapts members that use the encoder's class head to that head.

    Their `side` becomes the image side of the pre-training. If `head` is None they are removed, and the other readings
    share their weight.
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
    """Raises the weights of `aligned` members if normal images are aligned; the sum of all weights is unchanged.

    aligned: largest factor by member. shares: alignment of the normal images by member (`PaDiM.alignment`). The factor
    grows linearly from 1 at the share ALIKE[0] to the largest at ALIKE[1]. If objects are always in the same pose, what
    is normal depends on the position, which only PaDiM and ensembles with a PaDiM take into account.
    """
    low, high = ALIKE
    grown = {
        name: weight * (1 + (aligned.get(name, 1.0) - 1) * min(max((shares.get(name, 0.0) - low) / (high - low), 0), 1))
        for name, weight in weights.items()
    }
    factor = sum(weights.values()) / sum(grown.values()) if any(grown.values()) else 1.0
    return {name: weight * factor for name, weight in grown.items()}


def equal(names: Iterable[str]) -> dict[str, float]:
    """Returns the weight 1 / n for each of n names."""
    listed = list(names)
    return dict.fromkeys(listed, 1 / len(listed))

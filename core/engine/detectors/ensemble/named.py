"""Named configurations of the ensemble, which users can choose.

Each named configuration contains its members' settings and a few options of its ensemble. The method `ensemble` returns
the complete configuration. A run stores the named configuration.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from typing_extensions import Self

from core.engine.config import BadConfig, Config, option
from core.engine.detectors.class_head import ClassHeadConfig
from core.engine.detectors.ensemble.config import EnsembleConfig, Member, equal
from core.engine.detectors.lesion_head.config import LESION_PRESETS, LesionHeadConfig
from core.engine.detectors.mahalanobis import MahalanobisConfig
from core.engine.detectors.nearest.nearest import NearestConfig
from core.engine.detectors.padim import PaDiMConfig

T = TypeVar("T")


class Named(Config, abc.ABC):
    """Base class of the named configurations."""

    @abc.abstractmethod
    def ensemble(self) -> EnsembleConfig:
        """Returns the complete configuration of the ensemble."""


def with_heads(kind: Callable[..., T]) -> dict[str, T]:
    """Returns a configuration of class `kind` for each preset of the lesion head, by name of the preset."""
    return {preset: kind(head=head) for preset, head in LESION_PRESETS.items()}


QUICK = {"padim": "padim", "fine": "nearest", "coarse": "nearest", "pooled": "mahalanobis"}  # members, their detectors


@dataclass(frozen=True)
class BlendConfig(Named):
    """Options of the blend. `padim`, `fine`, `coarse` and `pooled` are the settings of its members.

    maps: Names of the members whose maps are added.
    stride: Stride of the grid on which maps are added.
    unseen: Fraction of the normal images that is held out to estimate the scales.
    colour: Whether the distance of the image's mean colour contributes to the score. Features trained on photographs
        hardly respond to brightness, which matters most in chest X-rays.
    seen: Minimum fraction of the images whose region of interest must contain a position. The map is 0 at other
        positions.
    aligned: Weight of PaDiM's map, as a multiple of the other maps' weight, if normal images show the same thing at the
        same position, as on a production line. With 1, all maps have equal weights.
    class_head: Weight of the class head of a PMSACL pre-training in the score, as a fraction of all weights. By
        default, it equals the weight of each other reading, because the head may miss lesions unlike the pasted ones.
        Without a class head, the other readings get its weight.
    """

    padim: PaDiMConfig = field(default_factory=lambda: PaDiMConfig(strides=(8, 16)))
    fine: NearestConfig = field(default_factory=lambda: NearestConfig(strides=(8, 16), patches=4000, pool=20_000))
    coarse: NearestConfig = field(default_factory=lambda: NearestConfig(strides=(16, 32), patches=4000, pool=20_000))
    pooled: MahalanobisConfig = field(default_factory=MahalanobisConfig)
    maps: tuple[str, ...] = tuple(QUICK)
    stride: int = option(8, low=1)
    unseen: float = option(0.15, above=0, below=0.9)
    colour: bool = True
    seen: float = option(0.05, low=0, below=1)
    aligned: float = option(4.0, low=1)
    class_head: float = option(1 / 5, low=0, below=1)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.maps or not set(self.maps) <= set(QUICK) or len(set(self.maps)) < len(self.maps):
            raise BadConfig(f"maps must name some of {', '.join(QUICK)}, each once, not {', '.join(self.maps)}")

    @property
    def readings(self) -> tuple[str, ...]:
        """Names of the readings (partial scores) that do not need a class head."""
        return ("colour", "pooled", "mean", "top") if self.colour else ("pooled", "mean", "top")

    def ensemble(self) -> EnsembleConfig:
        """Combines the quick detectors: all maps have equal weights in the heat map, and all readings in the score.

        PaDiM compares each position with the same position of normal images. The nearest-patch detectors compare each
        patch with all positions, at two depths of the network. The Mahalanobis detector compares the whole image, and
        each position with all positions. Weights are equal because there are no lesions from which to learn weights;
        only the weight of PaDiM's map grows if normal images are aligned. The class head of a PMSACL pre-training was
        trained on pasted lesions, so it adds information that distances from normal images lack.
        """
        members = {name: Member(detector, getattr(self, name)) for name, detector in QUICK.items()}
        weights = equal(self.readings)
        if self.class_head:
            members["classes"] = Member("class-head", ClassHeadConfig())
            weights = {name: weight * (1 - self.class_head) for name, weight in weights.items()}
            weights["classes"] = self.class_head
        return EnsembleConfig(
            members, equal(self.maps), weights,
            unseen=self.unseen, stride=self.stride, seen=self.seen, seed=self.seed,
            aligned={"padim": self.aligned} if "padim" in self.maps else {},
        )  # fmt: skip


def head_as(preset: str) -> LesionHeadConfig:
    """Returns the configuration of the lesion head for a preset, adapted for use together with the blend.

    The head is trained for half the steps and receives the map of distances. The encoder is frozen unless the mode is
    `joint`. The family `medmix:varied`, with lesions of all sizes and origins, is added, because the lesions of new
    images are unknown.
    """
    preset_config = LESION_PRESETS[preset]
    families = (*(name for name in preset_config.families if name != "medmix:varied"), "medmix:varied")
    changes = {"families": families, "distances": True, "steps": preset_config.steps // 2}
    return preset_config.replace(**changes, mode=preset_config.mode if preset_config.mode == "joint" else "frozen")


@dataclass(frozen=True)
class BlendHeadConfig(Named):
    """Options of the blend with a lesion head. `blend` and `head` are the settings of the two members.

    side: Side length in pixels to which larger images are resized for the head.
    weight: Weight of the head's map, relative to the blend's map.
    sigma: Standard deviation of the Gaussian blur of the head's map, in pixels of a 256 x 256 image. The map has less
        detail than its grid could show.
    seed: Seed of both members.
    """

    blend: BlendConfig = field(default_factory=BlendConfig)
    head: LesionHeadConfig = field(default_factory=lambda: head_as("quick"))
    side: int = option(128, low=32)
    weight: float = option(1.0, low=0)
    sigma: float = option(8.0, low=0)
    seed: int = 0

    @classmethod
    def presets(cls) -> dict[str, Self]:
        return {preset: cls(head=head_as(preset)) for preset in LESION_PRESETS}

    def ensemble(self) -> EnsembleConfig:
        """Adds the maps of the blend and the head. The head's score has the same weight as each reading of the blend.

        The head has learnt how lesions differ from their surroundings, but little about normal images, whereas the
        quick detectors learn only from normal images. If normal images are aligned, the blend's weight grows in the
        same way as PaDiM's weight within the blend.
        """
        blend, head = self.blend.replace(seed=self.seed), self.head.replace(seed=self.seed)
        members = {"blend": Member("blend", blend), "head": Member("lesion-head", head, self.side, self.sigma)}
        count = len(blend.readings)
        readings = {"blend": count / (count + 1), "head": 1 / (count + 1)}
        return EnsembleConfig(
            members, {"blend": 1.0, "head": self.weight}, readings,
            unseen=blend.unseen, stride=blend.stride, seen=blend.seen, seed=self.seed,
            aligned={"blend": blend.aligned} if "padim" in blend.maps else {},
        )  # fmt: skip


@dataclass(frozen=True)
class CombinedConfig(Named):
    """Options of the lesion head with PaDiM. `head` and `padim` are the settings of the two members.

    learn: Whether weights are learnt from synthetic validation data. Otherwise, PaDiM has the weight `weight` and the
        head the weight 1.
    score_weight: Fixed weight of PaDiM in the score. Defaults to None, which treats it like PaDiM's weight in the map.
    validation: Fraction of the normal images that is held out from both members to estimate their scales.
    seed: Seed of the head.
    """

    head: LesionHeadConfig = field(default_factory=lambda: LESION_PRESETS["quick"])
    padim: PaDiMConfig = field(default_factory=PaDiMConfig)
    learn: bool = True
    weight: float = option(1.0, low=0)
    score_weight: float | None = option(None, low=0)
    validation: float = option(0.12, above=0, below=0.9)
    seed: int = 0

    def ensemble(self) -> EnsembleConfig:
        """Combines the lesion head with PaDiM, on a grid of half the image's side length.

        The learnt weights stay equal unless other weights are clearly better, because synthetic lesions favour the
        head, even lesions of families on which the head was not trained.
        """
        members = {
            "head": Member("lesion-head", self.head.replace(seed=self.seed)),
            "padim": Member("padim", self.padim),
        }
        score = self.weight if self.score_weight is None else self.score_weight
        learnt = (("map",) if self.score_weight is not None else ("map", "score")) if self.learn else ()
        return EnsembleConfig(
            members, {"head": 1.0, "padim": self.weight}, {"head": 1.0, "padim": score}, learnt,
            unseen=self.validation, by_region=False, stride=2, seed=self.seed,
        )  # fmt: skip


@dataclass(frozen=True)
class HeadsConfig(Named):
    """Options of several lesion heads. `head` has the settings of every head.

    members: Number of heads. Head i has the seed `seed` + i.
    validation: Fraction of the normal images that is held out from all heads to estimate the scales.
    """

    head: LesionHeadConfig = field(default_factory=lambda: LESION_PRESETS["quick"])
    members: int = option(3, low=2, high=20)
    validation: float = option(0.12, above=0, below=0.9)
    seed: int = 0

    def ensemble(self) -> EnsembleConfig:
        """Averages lesion heads that differ in image order, pasted lesions and initial weights of the decoder."""
        heads = {str(i): Member("lesion-head", self.head.replace(seed=self.seed + i)) for i in range(self.members)}
        return EnsembleConfig(
            heads, equal(heads), equal(heads), unseen=self.validation, by_region=False, stride=2, seed=self.seed
        )

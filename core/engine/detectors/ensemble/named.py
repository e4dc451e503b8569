"""Configurations of the ensemble that have a name, as people set them.

Each names its members' settings and the few choices that are made beside them; `ensemble` gives the whole. The settings
are kept with a run under these names.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field

from typing_extensions import Self

from core.engine.config import BadConfig, Config
from core.engine.detectors.class_head import ClassHeadConfig
from core.engine.detectors.ensemble.config import EnsembleConfig, Member, equal
from core.engine.detectors.lesion_head.config import LESION_PRESETS, LesionHeadConfig
from core.engine.detectors.mahalanobis import MahalanobisConfig
from core.engine.detectors.nearest.nearest import NearestConfig
from core.engine.detectors.padim import PaDiMConfig


class Named(Config, abc.ABC):
    """Base of the configurations that stand for an ensemble."""

    @abc.abstractmethod
    def ensemble(self) -> EnsembleConfig:
        """Returns the whole configuration that this one stands for."""


QUICK = {"padim": "padim", "fine": "nearest", "coarse": "nearest", "pooled": "mahalanobis"}  # members, their detectors


@dataclass(frozen=True)
class BlendConfig(Named):
    """padim, fine, coarse, pooled: the members. maps: those whose maps make the heat map.

    unseen: share of the given normals that only sets their scales. stride: of the grid on which maps are added.
    colour: whether the distance of the image's mean colour is one of the score's readings. Where brightness alone tells
    most (chest X-rays), features trained on photographs look past it. seen: the map is 0 in places that the regions of
    interest of fewer than this share of the given images hold. aligned: how many times the others' weight PaDiM's map
    has where normal images show the same thing at the same place, as products on a line do; 1: never more than they.
    class_head: share of the score that the class head of a PMSACL pre-training has; by default that of each of the four
    other readings, as it tells nothing of lesions that look like none that was pasted. An encoder without one gives
    it to the other readings.
    """

    padim: PaDiMConfig = field(default_factory=lambda: PaDiMConfig(strides=(8, 16)))
    fine: NearestConfig = field(default_factory=lambda: NearestConfig(strides=(8, 16), patches=4000, pool=20_000))
    coarse: NearestConfig = field(default_factory=lambda: NearestConfig(strides=(16, 32), patches=4000, pool=20_000))
    pooled: MahalanobisConfig = field(default_factory=MahalanobisConfig)
    maps: tuple[str, ...] = tuple(QUICK)
    stride: int = 8
    unseen: float = 0.15
    colour: bool = True
    seen: float = 0.05
    aligned: float = 4.0
    class_head: float = 1 / 5
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.unseen < 0.9 or self.stride < 1 or self.aligned < 1:
            raise BadConfig("unseen lies in (0, 0.9), and stride and aligned are at least 1")
        if not 0 <= self.seen < 1:
            raise BadConfig("seen lies in [0, 1)")
        if not 0 <= self.class_head < 1:
            raise BadConfig(f"class_head lies in [0, 1), not {self.class_head}")
        if not self.maps or not set(self.maps) <= set(QUICK) or len(set(self.maps)) < len(self.maps):
            raise BadConfig(f"maps are some of {', '.join(QUICK)}, not {', '.join(self.maps)}")

    @property
    def readings(self) -> tuple[str, ...]:
        """The readings that any encoder gives."""
        return ("colour", "pooled", "mean", "top") if self.colour else ("pooled", "mean", "top")

    def ensemble(self) -> EnsembleConfig:
        """Joins four quick detectors with an equal say in the map, and up to four readings with one in the score.

        PaDiM compares each place with the same place of normal images, the nearest patches with any place, in two
        depths of the network, and the Mahalanobis distance the image as a whole and each place with all places. Weights
        are equal by design: on images of a kind that nobody has seen there is nothing to learn them from. PaDiM's alone
        grows where normal images are alike place by place. The class head of a PMSACL pre-training has seen what
        lesions may look like, which no distance from normal images knows.
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
    """Returns the head of a preset as it is used beside the blend.

    It is trained half as long, on features that stay as they are, but for `joint`, and with distances. Lesions of
    every size and origin come beside its own, for nobody knows what an image will show.
    """
    own = LESION_PRESETS[preset]
    families = (*(name for name in own.families if name != "medmix:varied"), "medmix:varied")
    changes = {"families": families, "distances": True, "steps": own.steps // 2}
    return own.replace(**changes, mode=own.mode if own.mode == "joint" else "frozen")


@dataclass(frozen=True)
class BlendHeadConfig(Named):
    """blend, head: settings of the two; the seed of both is `seed`.

    side: of the images that the head sees, in pixels, where they are larger. weight: of the head's map beside the
    blend's, which counts 1. sigma: of the blur of the head's map, in pixels at 256 x 256: its finest cells are finer
    than what it knows.
    """

    blend: BlendConfig = field(default_factory=BlendConfig)
    head: LesionHeadConfig = field(default_factory=lambda: head_as("quick"))
    side: int = 128
    weight: float = 1.0
    sigma: float = 8.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.side < 32 or min(self.weight, self.sigma) < 0:
            raise BadConfig("side is at least 32, and weight and sigma are 0 or more")

    @classmethod
    def presets(cls) -> dict[str, Self]:
        return {preset: cls(head=head_as(preset)) for preset in LESION_PRESETS}

    def ensemble(self) -> EnsembleConfig:
        """Joins the blend's map and the head's; the head's score is one more reading beside the blend's.

        The head knows how a lesion lies in its surroundings and little of what is normal; the quick detectors know the
        normal alone.
        """
        blend, head = self.blend.replace(seed=self.seed), self.head.replace(seed=self.seed)
        members = {"blend": Member("blend", blend), "head": Member("lesion-head", head, self.side, self.sigma)}
        count = len(blend.readings)
        readings = {"blend": count / (count + 1), "head": 1 / (count + 1)}
        return EnsembleConfig(
            members, {"blend": 1.0, "head": self.weight}, readings,
            unseen=blend.unseen, stride=blend.stride, seen=blend.seen, seed=self.seed,
        )  # fmt: skip


@dataclass(frozen=True)
class CombinedConfig(Named):
    """head, padim: settings of the two; the head's seed is `seed`.

    learn: weights from synthetic validation data; otherwise `weight` is PaDiM's and the head's is 1. score_weight:
    PaDiM's in the score, whatever was learnt; the map keeps its own.
    validation: share of the given normals that neither is fitted on; both scales come from them.
    """

    head: LesionHeadConfig = field(default_factory=lambda: LESION_PRESETS["quick"])
    padim: PaDiMConfig = field(default_factory=PaDiMConfig)
    learn: bool = True
    weight: float = 1.0
    score_weight: float | None = None
    validation: float = 0.12
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.validation < 0.9 or min(self.weight, self.score_weight or 0) < 0:
            raise BadConfig("validation lies in (0, 0.9), weights are 0 or more")

    @classmethod
    def presets(cls) -> dict[str, Self]:
        return {preset: cls(head=LESION_PRESETS[preset]) for preset in LESION_PRESETS}

    def ensemble(self) -> EnsembleConfig:
        """Joins what looks pasted with what is unlike normal images at its place, on a grid of half the image's side.

        The weights are learnt, and stay equal unless others are clearly better: even families that the head was not
        trained on favour what knows synthetic lesions.
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
    """head: settings of every member; member i has the seed `seed` + i. members: how many, each a training of its own.

    validation: share of the given normals that no member is fitted on; the scales come from them.
    """

    head: LesionHeadConfig = field(default_factory=lambda: LESION_PRESETS["quick"])
    members: int = 3
    validation: float = 0.12
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.members <= 20 or not 0 < self.validation < 0.9:
            raise BadConfig("members lies in 2..20 and validation in (0, 0.9)")

    @classmethod
    def presets(cls) -> dict[str, Self]:
        return {preset: cls(head=LESION_PRESETS[preset]) for preset in LESION_PRESETS}

    def ensemble(self) -> EnsembleConfig:
        """Joins lesion heads that differ in the images' order, in what is pasted where, and in the decoder's start."""
        heads = {str(i): Member("lesion-head", self.head.replace(seed=self.seed + i)) for i in range(self.members)}
        return EnsembleConfig(
            heads, equal(heads), equal(heads), unseen=self.validation, by_region=False, stride=2, seed=self.seed
        )

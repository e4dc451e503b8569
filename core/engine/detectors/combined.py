"""The lesion head and PaDiM together: what looks pasted, and what looks unlike any normal image at that place.

The head knows lesions it was taught and PaDiM knows only the normal; they err in different places. Each is put on the
scale of normal images that neither has seen (mean 0, standard deviation 1), and the two are added. How much each counts
in the score and in the map is learnt on those normals, with lesions of families that the head was not trained on. The
weights stay equal unless others are clearly better: even held-out families favour what knows synthetic lesions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from typing_extensions import Self

from core.engine.config import BadConfig, Config
from core.engine.detectors.base import Detector, Prediction, Report, Stop, roi_at
from core.engine.detectors.lesion_head import LesionHead
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.encoder import Encoder
from core.engine.files import write_json
from core.engine.heatmap import upsample
from core.engine.lesion.config import LESION_PRESETS, LesionHeadConfig
from core.engine.lesion.validation import SyntheticValidation
from core.engine.registry import DETECTORS

ABOUT = "combined.json"


@dataclass(frozen=True)
class CombinedConfig(Config):
    """head, padim: settings of the two. learn: weights from synthetic validation data; otherwise `weight` is PaDiM's
    and the head's is 1.

    validation: share of the given normals that neither is fitted on; both scales come from them.
    """

    head: LesionHeadConfig = field(default_factory=lambda: LESION_PRESETS["quick"])
    padim: PaDiMConfig = field(default_factory=PaDiMConfig)
    learn: bool = True
    weight: float = 1.0
    validation: float = 0.12
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.validation < 0.9 or self.weight < 0:
            raise BadConfig("validation lies in (0, 0.9), weight is 0 or more")


@dataclass(frozen=True)
class Scale(Config):
    """Mean and standard deviation of a member's scores and of its maps' cells, over unseen normal images."""

    score_mean: float
    score_sd: float
    map_mean: float
    map_sd: float

    @classmethod
    def of(cls, member: Detector, images: np.ndarray, roi: np.ndarray | None) -> Self:
        prediction = member.predict(images)
        scores = member.image_score(prediction, roi)
        cells = prediction.maps if roi is None else prediction.maps[roi_at(roi, prediction.maps.shape[1:])]
        least = 1e-6  # a map that never varies says nothing, and must not be divided by
        return cls(
            float(scores.mean()), max(least, float(scores.std())), float(cells.mean()), max(least, float(cells.std()))
        )


@dataclass(frozen=True)
class Weights(Config):
    """PaDiM's weight beside the head's 1: in the image's score and in the map."""

    score: float = 1.0
    map: float = 1.0


_CANDIDATES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
_CLEARLY = 0.005  # of AUROC: what is within this of the best counts as good as the best


def choose_weight(head: np.ndarray, padim: np.ndarray, labels: np.ndarray) -> float:
    """The weight w for which head + w padim tells the labels apart best; of those as good, the nearest to equal.

    All (N,): standardised scores, or cells of standardised maps. labels 0 or 1, both present.
    """
    auroc = {w: roc_auc_score(labels, head + w * padim) for w in _CANDIDATES}
    good = [w for w in _CANDIDATES if auroc[w] >= max(auroc.values()) - _CLEARLY]
    return min(good, key=lambda w: abs(np.arctan(w) - np.pi / 4))


@DETECTORS.register("combined", title="Lesion head + PaDiM", section="Sec. Conclusion, with PaDiM")
class Combined(Detector):
    """Maps and scores are sums of the members' standardised ones. extras: `head` and `padim` scores (N,), so that a
    reader sees whether the two agree, and what each member's own score needs.
    """

    name = "combined"
    title = "Lesion head + PaDiM"
    Config = CombinedConfig
    presets = {kind: CombinedConfig(head=LESION_PRESETS[kind]) for kind in LESION_PRESETS}

    def __init__(
        self, config: CombinedConfig, members: dict[str, Detector], scales: dict[str, Scale], weights: Weights
    ) -> None:
        self.config, self.members, self.scales, self.weights = config, members, scales, weights

    @classmethod
    def fit(
        cls,
        encoder: Encoder,
        images: np.ndarray,
        config: CombinedConfig,
        *,
        roi: np.ndarray | None = None,
        device: torch.device | str = "cpu",
        report: Report | None = None,
        should_stop: Stop | None = None,
        folder: Path | None = None,
    ) -> Self:
        """images uint8 (N, S, S, 3), normal. ValueError under 16 images."""
        if len(images) < 16:
            raise ValueError(f"the combined detector learns from at least 16 normal images; there are {len(images)}")
        order = np.random.default_rng(config.seed).permutation(len(images))
        unseen = np.sort(order[: max(4, round(config.validation * len(images)))])
        seen = np.setdiff1d(order, unseen)
        inside = None if roi is None else roi[seen]
        told = {"device": device, "should_stop": should_stop}
        padim = PaDiM.fit(encoder, images[seen], config.padim, roi=inside, **told)
        head = LesionHead.fit(encoder, images[seen], config.head, roi=inside, report=report, folder=folder, **told)
        members = {"head": head, "padim": padim}
        outside = None if roi is None else roi[unseen]
        scales = {name: Scale.of(member, images[unseen], outside) for name, member in members.items()}
        detector = cls(config, members, scales, Weights(config.weight, config.weight))
        if config.learn:
            detector.weights = detector._learn(images[unseen], outside)
        return detector

    def _learn(self, images: np.ndarray, roi: np.ndarray | None) -> Weights:
        """images uint8 (N, S, S, 3), normal, that neither member has seen."""
        data = SyntheticValidation.draw(images, roi, self.config.head)
        use = data.use
        prediction = self.predict(data.images)
        scores = {name: self._own(name, prediction.extras, data.roi)[use] for name in self.members}
        if len(set(data.labels[use])) < 2:
            return Weights(self.config.weight, self.config.weight)
        maps = {name: self._map(name, prediction.extras[f"{name}.maps"], images.shape[1] // 2) for name in self.members}
        shape = maps["head"].shape[1:]
        lesion = roi_at(data.masks.astype(np.uint8), shape)
        inside = np.ones_like(lesion) if data.roi is None else roi_at(data.roi, shape)
        cells = {name: values[inside] for name, values in maps.items()}
        return Weights(
            choose_weight(scores["head"], scores["padim"], data.labels[use]),
            choose_weight(cells["head"], cells["padim"], lesion[inside]),
        )

    def _map(self, name: str, maps: np.ndarray, side: int) -> np.ndarray:
        """A member's maps (N, h, w), standardised, at (N, side, side)."""
        scale = self.scales[name]
        return (upsample(maps, side) - scale.map_mean) / scale.map_sd

    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Maps float32 (N, S/2, S/2). extras carry each member's map and its own extras, by `member.name`."""
        total, extras = 0.0, {}
        for name, weight in (("head", 1.0), ("padim", self.weights.map)):
            part = self.members[name].predict(images, batch=batch)
            total = total + weight * self._map(name, part.maps, images.shape[1] // 2)
            extras[f"{name}.maps"] = part.maps
            extras |= {f"{name}.{key}": value for key, value in part.extras.items()}
        extras |= {name: self._own(name, extras, None) for name in self.members}
        return Prediction(np.asarray(total, np.float32), extras)

    def _own(self, name: str, extras: dict[str, np.ndarray], roi: np.ndarray | None) -> np.ndarray:
        """A member's standardised scores (N,)."""
        own = {k.removeprefix(f"{name}."): v for k, v in extras.items() if k.startswith(f"{name}.")}
        part = Prediction(own.pop("maps"), own)
        scale = self.scales[name]
        return (self.members[name].image_score(part, roi) - scale.score_mean) / scale.score_sd

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """(N,) float32: the weighted sum of the members' standardised scores."""
        head, padim = (self._own(name, prediction.extras, roi) for name in ("head", "padim"))
        return (head + self.weights.score * padim).astype(np.float32)

    def save(self, folder: Path) -> None:
        for name, member in self.members.items():
            member.save(Path(folder) / name)
        scales = {name: scale.to_dict() for name, scale in self.scales.items()}
        about = {"config": self.config.to_dict(), "scales": scales, "weights": self.weights.to_dict()}
        write_json(Path(folder) / ABOUT, about)

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        folder = Path(folder)
        about = json.loads((folder / ABOUT).read_text())
        members = {"head": LesionHead.load(folder / "head", device), "padim": PaDiM.load(folder / "padim", device)}
        scales = {name: Scale.from_dict(values) for name, values in about["scales"].items()}
        config = CombinedConfig.from_dict(about["config"])
        return cls(config, members, scales, Weights.from_dict(about["weights"]))

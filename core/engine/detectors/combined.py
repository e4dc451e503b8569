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
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig, Config
from core.engine.detectors.base import Detector, FitContext, Prediction
from core.engine.detectors.heatmap import roi_at
from core.engine.detectors.lesion_head.config import LESION_PRESETS, LesionHeadConfig
from core.engine.detectors.lesion_head.lesion_head import LesionHead
from core.engine.detectors.lesion_head.validation import SyntheticValidation
from core.engine.detectors.members import Members, part_unseen
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.files import write_json
from core.engine.registry import DETECTORS

ABOUT = "combined.json"


@dataclass(frozen=True)
class CombinedConfig(Config):
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


@dataclass(frozen=True)
class Weights(Config):
    """PaDiM's weight beside the head's 1: in the image's score and in the map."""

    score: float = 1.0
    map: float = 1.0


_CANDIDATES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
_CLEARLY = 0.005  # of AUROC: what is within this of the best counts as good as the best


def choose_weight(head: np.ndarray, padim: np.ndarray, labels: np.ndarray) -> float:
    """The weight w for which head + w padim separates the labels best; of those as good, the nearest to equal.

    All (N,): standardised scores, or cells of standardised maps. labels 0 or 1, both present.
    """
    from sklearn.metrics import roc_auc_score  # here: scikit-learn takes seconds to load

    auroc = {w: roc_auc_score(labels, head + w * padim) for w in _CANDIDATES}
    good = [w for w in _CANDIDATES if auroc[w] >= max(auroc.values()) - _CLEARLY]
    return min(good, key=lambda w: abs(np.arctan(w) - np.pi / 4))


@DETECTORS.register("combined", title="Lesion head + PaDiM", section="Sec. Conclusion, with PaDiM")
class Combined(Detector):
    """Maps and scores are sums of the members' standardised ones. extras: `head` and `padim` scores (N,), so that a
    reader sees whether the two agree, and what each member's own score needs.
    """

    name = "combined"
    shares = True
    Config = CombinedConfig
    presets = {kind: CombinedConfig(head=LESION_PRESETS[kind]) for kind in LESION_PRESETS}

    def __init__(self, config: CombinedConfig, members: Members, weights: Weights) -> None:
        self.config, self.members, self.weights = config, members, weights

    @classmethod
    def fit(
        cls, encoder: Encoder, images: np.ndarray, config: CombinedConfig, context: FitContext = FitContext()
    ) -> Self:
        """images uint8 (N, S, S, 3), normal. ValueError under 16 images."""
        (seen, around), unseen = part_unseen(images, context, config.validation, config.seed)
        padim = PaDiM.fit(encoder, seen, config.padim, around.replace(report=None))
        if context.folder is not None:
            # Where the head is saved: saving it removes the state of its training.
            around = around.replace(folder=context.folder / "head")
        head = LesionHead.fit(encoder, seen, config.head.replace(seed=config.seed), around)
        members = Members.of({"head": head, "padim": padim}, *unseen)
        detector = cls(config, members, Weights(config.weight, config.weight))
        if config.learn:
            detector.weights = detector._learn(*unseen)
        if config.score_weight is not None:
            detector.weights = detector.weights.replace(score=config.score_weight)
        return detector

    def _learn(self, images: np.ndarray, roi: np.ndarray | None) -> Weights:
        """images uint8 (N, S, S, 3), normal, that neither member has seen."""
        data = SyntheticValidation.draw(images, roi, self.config.head)
        labels = data.labels[data.use]
        if len(set(labels)) < 2:
            return self.weights
        parts = self.members.predict(data.images)
        scores = {name: values[data.use] for name, values in self.members.scores(parts, data.roi).items()}
        maps = self.members.maps(parts, images.shape[1] // 2)
        shape = maps["head"].shape[1:]
        lesion = roi_at(data.masks.astype(np.uint8), shape)
        inside = np.ones_like(lesion) if data.roi is None else roi_at(data.roi, shape)
        return Weights(
            choose_weight(scores["head"], scores["padim"], labels),
            choose_weight(maps["head"][inside], maps["padim"][inside], lesion[inside]),
        )

    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Maps float32 (N, S/2, S/2). extras carry each member's map and its own extras, by `member.name`."""
        parts = self.members.predict(images, batch)
        maps = self.members.maps(parts, images.shape[1] // 2)
        total = maps["head"] + self.weights.map * maps["padim"]
        return Prediction(np.asarray(total, np.float32), {**parts, **self.members.scores(parts, None)})

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """(N,) float32: the weighted sum of the members' standardised scores."""
        scores = self.members.scores(prediction.extras, roi)
        return (scores["head"] + self.weights.score * scores["padim"]).astype(np.float32)

    def save(self, folder: Path) -> None:
        about = {
            "config": self.config.to_dict(),
            "scales": self.members.save(folder),
            "weights": self.weights.to_dict(),
        }
        write_json(Path(folder) / ABOUT, about)

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        about = json.loads((Path(folder) / ABOUT).read_text())
        loaders = {"head": lambda p: LesionHead.load(p, device), "padim": lambda p: PaDiM.load(p, device)}
        members = Members.load(folder, about["scales"], loaders)
        return cls(CombinedConfig.from_dict(about["config"]), members, Weights.from_dict(about["weights"]))

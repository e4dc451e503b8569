"""Several lesion heads, trained apart and averaged; where they differ, the system is not sure.

The heads differ in their seed alone: in the order of the images, in what is pasted where, and in the decoder's start.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig, Config
from core.engine.detectors.base import Detector, FitContext, Prediction
from core.engine.detectors.lesion_head.config import LESION_PRESETS, LesionHeadConfig
from core.engine.detectors.lesion_head.lesion_head import ABOUT as ABOUT_HEAD
from core.engine.detectors.lesion_head.lesion_head import LesionHead, fitted_on
from core.engine.detectors.members import Members, part_unseen
from core.engine.files import write_json
from core.engine.progress import part_of
from core.engine.registry import DETECTORS

ABOUT = "ensemble.json"


@dataclass(frozen=True)
class EnsembleConfig(Config):
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


@DETECTORS.register("ensemble", title="Lesion heads, averaged", section="Sec. Conclusion: a detector suited to PMSACL")
class Ensemble(Detector):
    """Means of the members' standardised maps and scores. extras: `members` (N, M), each one's score in standard
    deviations of unseen normals, and what the members' own scores need. Scoring takes M times as long as one head.
    """

    name = "ensemble"
    Config = EnsembleConfig
    presets = {kind: EnsembleConfig(head=LESION_PRESETS[kind]) for kind in LESION_PRESETS}

    def __init__(self, config: EnsembleConfig, members: Members) -> None:
        self.config, self.members = config, members

    @classmethod
    def fit(
        cls, encoder: Encoder, images: np.ndarray, config: EnsembleConfig, context: FitContext = FitContext()
    ) -> Self:
        """images uint8 (N, S, S, 3), normal. A member that is finished is kept in `folder` and not trained again."""
        (seen, around), unseen = part_unseen(images, context, config.validation, config.seed)
        heads: dict[str, LesionHead] = {}
        for i in range(config.members):
            own = config.head.replace(seed=config.seed + i)
            place = None if context.folder is None else context.folder / f"{i}"
            report = part_of(context.report, i * own.steps, config.members * own.steps)
            part = around.replace(folder=place, report=report)
            heads[str(i)] = _finished(encoder, seen, own, part) or LesionHead.fit(encoder, seen, own, part)
            if place is not None:
                heads[str(i)].save(place)
        return cls(config, Members.of(heads, *unseen))

    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Maps float32 (N, S/2, S/2), in standard deviations of unseen normals' cells."""
        parts = self.members.predict(images, batch)
        maps = self.members.maps(parts, images.shape[1] // 2)
        each = np.stack(list(self.members.scores(parts, None).values()), 1)
        return Prediction(np.mean(list(maps.values()), 0).astype(np.float32), {**parts, "members": each})

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """(N,) float32: the mean of the members' standardised scores."""
        return np.mean(list(self.members.scores(prediction.extras, roi).values()), 0).astype(np.float32)

    def save(self, folder: Path) -> None:
        about = {"config": self.config.to_dict(), "scales": self.members.save(folder)}
        write_json(Path(folder) / ABOUT, about)

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        about = json.loads((Path(folder) / ABOUT).read_text())
        loaders = dict.fromkeys(about["scales"], functools.partial(LesionHead.load, device=device))
        return cls(EnsembleConfig.from_dict(about["config"]), Members.load(folder, about["scales"], loaders))


def _finished(encoder: Encoder, images: np.ndarray, config: LesionHeadConfig, context: FitContext) -> LesionHead | None:
    """A member that a fit saved before it was stopped, if it was fitted with these very arguments."""
    if context.folder is None or not (context.folder / ABOUT_HEAD).is_file():
        return None
    head = LesionHead.load(context.folder, context.device)
    same = head.config == config and head.fitted_on == fitted_on(encoder, images, context.roi)
    return head if same else None

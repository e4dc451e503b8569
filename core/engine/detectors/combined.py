"""The lesion head and PaDiM together: what looks pasted, and what looks unlike any normal image at that place.

The head knows lesions it was taught and PaDiM knows only the normal; they err in different places. Each is put on the
scale of normal images that neither has seen (mean 0, standard deviation 1), and the two are added with equal weight:
weights learnt on synthetic lesions would favour the one that was trained on synthetic lesions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from typing_extensions import Self

from core.engine.config import BadConfig, Config
from core.engine.detectors.base import Detector, Prediction, Report, Stop, roi_at
from core.engine.detectors.lesion_head import LesionHead
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.encoder import Encoder
from core.engine.files import write_json
from core.engine.heatmap import upsample
from core.engine.lesion.config import LESION_PRESETS, LesionHeadConfig
from core.engine.registry import DETECTORS

ABOUT = "combined.json"


@dataclass(frozen=True)
class CombinedConfig(Config):
    """head, padim: settings of the two. weight: of PaDiM, the head's being 1.

    validation: share of the given normals that neither is fitted on; both scales come from them.
    """

    head: LesionHeadConfig = field(default_factory=lambda: LESION_PRESETS["quick"])
    padim: PaDiMConfig = field(default_factory=PaDiMConfig)
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


@DETECTORS.register("combined", title="Lesion head + PaDiM", section="Sec. Conclusion, with PaDiM")
class Combined(Detector):
    """Maps and scores are sums of the members' standardised ones. extras: `head` and `padim` scores (N,), so that a
    reader sees whether the two agree, and what each member's own score needs.
    """

    name = "combined"
    title = "Lesion head + PaDiM"
    Config = CombinedConfig
    presets = {kind: CombinedConfig(head=LESION_PRESETS[kind]) for kind in LESION_PRESETS}

    def __init__(self, config: CombinedConfig, members: dict[str, Detector], scales: dict[str, Scale]) -> None:
        self.config, self.members, self.scales = config, members, scales

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
        return cls(config, members, scales)

    def _weights(self) -> dict[str, float]:
        return {"head": 1.0, "padim": self.config.weight}

    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Maps float32 (N, S/2, S/2). extras carry each member's map and its own extras, by `member.name`."""
        total, extras = 0.0, {}
        for name, weight in self._weights().items():
            part, scale = self.members[name].predict(images, batch=batch), self.scales[name]
            maps = upsample(part.maps, images.shape[1] // 2)
            total = total + weight * (maps - scale.map_mean) / scale.map_sd
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
        total = sum(w * self._own(name, prediction.extras, roi) for name, w in self._weights().items())
        return total.astype(np.float32)

    def save(self, folder: Path) -> None:
        for name, member in self.members.items():
            member.save(Path(folder) / name)
        scales = {name: scale.to_dict() for name, scale in self.scales.items()}
        write_json(Path(folder) / ABOUT, {"config": self.config.to_dict(), "scales": scales})

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        folder = Path(folder)
        about = json.loads((folder / ABOUT).read_text())
        members = {"head": LesionHead.load(folder / "head", device), "padim": PaDiM.load(folder / "padim", device)}
        scales = {name: Scale.from_dict(values) for name, values in about["scales"].items()}
        return cls(CombinedConfig.from_dict(about["config"]), members, scales)

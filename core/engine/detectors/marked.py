"""How version 0.2 learnt from marks: a linear discriminant of cells beside the base's map. Its runs load and score; new
ones are learnt by `learnt`.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import Self

from core.engine.backbones.embed import inference_copy
from core.engine.backbones.encoder import Encoder, load_encoder
from core.engine.calibration.heatmap import blur, upsample
from core.engine.config import Config
from core.engine.detectors.base import Detector, FitContext, Prediction
from core.engine.detectors.map_detector import maps_of
from core.engine.registry import DETECTORS

REPLACED = "version 0.2 learnt from marks in this way; learn anew from the detector that it learnt on from"


@dataclass(frozen=True)
class MarkedConfig(Config):
    """As version 0.2 stored it. strides: of the maps that are joined on the grid of stride `grid`."""

    base: str = "blend"
    base_run: str = ""
    strides: tuple[int, ...] = (4, 8, 16, 32)
    grid: int = 8
    channels: int = 512
    sigma: float = 8.0
    shrinkages: tuple[float, ...] = (0.03, 0.3, 3.0)
    shares: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)
    folds: int = 10
    batch: int = 32
    seed: int = 0


@DETECTORS.register("marked", title="Learnt from marks, version 0.2", listed=False)
class Marked(Detector):
    """Version 0.2's detector: its map mixes a learnt map with that of its base.

    The mixture has the mean and deviation of the base's map on normal images, so that the base reads its score.
    """

    name = "marked"
    Config = MarkedConfig

    def __init__(self, config: MarkedConfig, base: Detector, encoder: Encoder, summary: dict[str, Any]) -> None:
        self.config, self.base, self.encoder, self.about, self.size = config, base, encoder, summary, base.size
        self.tensors: dict[str, Tensor] = {}

    @functools.cached_property
    def reader(self) -> Encoder:
        return inference_copy(self.encoder)

    @classmethod
    def fit(cls, encoder: Encoder, images: np.ndarray, config: Any, context: FitContext = FitContext()) -> Self:
        raise ValueError(REPLACED)

    @torch.inference_mode()
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts maps float32 (N, h, w) on the finer grid of the base's and the learnt map's.

        They are the base's where nothing was learnt.
        """
        prediction = self.base.predict(images, batch=batch, roi=roi)
        if not self.tensors or not len(images):
            return prediction
        learnt = np.concatenate(
            [self._learnt(np.asarray(images[start : start + batch])) for start in range(0, len(images), batch)]
        )
        scales, share = self.about["scales"], self.about["rule"]["share"]
        side = max(prediction.maps.shape[1], learnt.shape[1])
        base = upsample((prediction.maps - scales["mean"]) / scales["deviation"], side)
        mixture = ((1 - share) * base + share * upsample(learnt, side)) / scales["mixture"]
        return self.base.changed(prediction, np.asarray(scales["mean"] + scales["deviation"] * mixture, np.float32))

    def _learnt(self, images: np.ndarray) -> np.ndarray:
        """Standardised float32 (B, h, w)."""
        maps, grid = maps_of(self.reader, images, set(self.config.strides)), self.config.grid
        shape = (maps[grid].shape[-2], maps[grid].shape[-1])
        parts = [
            F.adaptive_avg_pool2d(maps[s], shape)
            if s < grid
            else F.interpolate(maps[s], shape, mode="bilinear", align_corners=False)
            for s in self.config.strides
        ]
        cells = torch.cat(parts, 1).permute(0, 2, 3, 1)
        if "channels" in self.tensors:
            cells = cells[..., self.tensors["channels"].to(cells.device)]
        heat = (cells.float() - self.tensors["middle"]) @ self.tensors["weights"]
        heat = blur(heat, self.config.sigma * heat.shape[1] / 256)
        return np.asarray((heat.cpu().numpy() - self.about["mean"]) / self.about["deviation"])

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        return self.base.image_score(prediction, roi)

    def save(self, folder: Path) -> None:
        raise ValueError(REPLACED)

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        folder = Path(folder)
        saved = json.loads((folder / "marked.json").read_text())
        config = MarkedConfig.from_dict(saved["config"])
        base = DETECTORS.get(config.base).load(folder / "base", device)
        detector = cls(config, base, load_encoder(folder / "encoder", device), saved)
        if saved["learnt"]:
            detector.tensors = load_file(folder / "marked.safetensors", device=str(device))
        return detector

"""The class head of pre-training as a detector: the evidence for A_1 to A_k against A_0 (PMSACL Eq. 8).

Pre-training with MedMix learns to distinguish normal images from images with pasted lesions; its class head is usually
discarded afterwards. Together with distances from normal images it tells *whether* an image is abnormal, but hardly
where, since its map has the coarsest stride. It needs no fit: everything it knows comes from pre-training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from typing_extensions import Self

from core.engine.backbones.config import STRIDES
from core.engine.backbones.encoder import ClassHead, Encoder
from core.engine.config import BadConfig, Config
from core.engine.detectors.base import FitContext, Prediction
from core.engine.detectors.map_detector import MapDetector
from core.engine.registry import DETECTORS


@dataclass(frozen=True)
class ClassHeadConfig(Config):
    """Options of the class-head detector. batch: images per step."""

    batch: int = 32

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise BadConfig(f"batch must be at least 1, not {self.batch}")

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride of the coarsest map, which pre-training pools."""
        return STRIDES[-1:]


@DETECTORS.register("class-head", title="Class head of the pre-training", section="Eq. 8", listed=False)
class ClassHeadDetector(MapDetector):
    """Scores images by the log odds of A_1 to A_k against A_0; the region of interest has no effect.

    It works best at the image size of pre-training (`Encoder.class_head.side`), to which an ensemble resizes images.
    """

    name = "class-head"
    Config = ClassHeadConfig

    def __init__(self, encoder: Encoder, config: ClassHeadConfig, size: int) -> None:
        super().__init__()
        self.encoder, self.config, self.size = encoder, config, size

    @property
    def head(self) -> ClassHead:
        """The encoder's class head."""
        assert self.encoder.class_head is not None  # `fitting` checks it
        return self.encoder.class_head

    @classmethod
    def fitting(cls, encoder: Encoder, config: ClassHeadConfig, count: int, size: int, context: FitContext) -> _NoFit:
        """Raises ValueError if the encoder has no class head."""
        if encoder.class_head is None:
            raise ValueError("this encoder has no class head: pre-train it by PMSACL, or choose another detector")
        return _NoFit(cls(encoder, config, size))

    def evidence(self, maps: dict[int, Tensor]) -> tuple[Tensor, Tensor]:
        """Computes the log odds of each cell (B, h, w) and of each image (B,) from maps by stride."""
        coarse = maps[STRIDES[-1]]
        pooled = Encoder.pool(maps)
        cells = coarse.permute(0, 2, 3, 1).flatten(0, 2)
        cell_evidence = self.head.evidence(cells, self.encoder.project(cells))
        return cell_evidence.view(-1, *coarse.shape[2:]), self.head.evidence(pooled, self.encoder.project(pooled))

    def read(self, maps: dict[int, Tensor], roi: np.ndarray | None = None) -> Prediction:
        """Reads a batch: log odds (B, S / 32, S / 32) as maps; extras: `evidence` (B,), the image's log odds."""
        cells, image = self.evidence(maps)
        return Prediction(cells.cpu().numpy(), {"evidence": image.cpu().numpy()})

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        return prediction.extras["evidence"]

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        return cls(within["encoder"], config, size)


class _NoFit:
    """The fit of a detector that learns nothing from the images."""

    def __init__(self, detector: ClassHeadDetector) -> None:
        self.detector = detector

    def add(self, maps: dict[int, Tensor], start: int) -> None:
        pass

    def finish(self) -> ClassHeadDetector:
        return self.detector

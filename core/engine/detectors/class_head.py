"""The class head of the pre-training, used as a detector: the evidence for A_1 to A_k against A_0 (PMSACL Eq. 8).

Pre-training with MedMix learns to distinguish normal images from images with pasted lesions. The class head is usually
discarded afterwards. Combined with distances from normal images, it helps to decide whether an image is abnormal, but
hardly shows where, because its map has the coarsest stride. The fit does not change the class head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from typing_extensions import Self

from core.engine.backbones.config import STRIDES
from core.engine.backbones.encoder import ClassHead, Encoder
from core.engine.config import Config, option
from core.engine.detectors.base import FitContext
from core.engine.detectors.map_detector import MapDetector
from core.engine.registry import DETECTORS


@dataclass(frozen=True)
class ClassHeadConfig(Config):
    """Options of the class-head detector.

    batch: Number of images per step.
    """

    batch: int = option(32, low=1)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides of the maps that the detector uses: only the coarsest, whose map is pooled in pre-training."""
        return STRIDES[-1:]


@DETECTORS.register("class-head", title="Class head of the pre-training", section="Eq. 8", listed=False)
class ClassHeadDetector(MapDetector):
    """Detector that scores images by the log odds of A_1 to A_k against A_0. The region of interest has no effect.

    Scores are best at the image size of pre-training (`Encoder.class_head.side`). Ensembles shrink larger images.
    """

    name = "class-head"
    Config = ClassHeadConfig

    def __init__(self, encoder: Encoder, config: ClassHeadConfig, size: int) -> None:
        super().__init__()
        self.encoder, self.config, self.size = encoder, config, size

    @property
    def head(self) -> ClassHead:
        """Class head that pre-training saved with the encoder."""
        assert self.encoder.class_head is not None  # `fitting` checks it
        return self.encoder.class_head

    @classmethod
    def fitting(cls, encoder: Encoder, config: ClassHeadConfig, count: int, size: int, context: FitContext) -> Self:
        """Returns the detector, which needs no fit. Raises ValueError if the encoder has no class head."""
        if encoder.class_head is None:
            raise ValueError("the encoder has no class head: pre-train it by PMSACL, or choose another detector")
        return cls(encoder, config, size)

    def add(self, maps: dict[int, Tensor], start: int) -> None:
        """Does nothing, because the detector learns nothing from the images."""

    def finish(self) -> Self:
        return self

    def read(self, maps: dict[int, Tensor], roi: Tensor | None = None) -> dict[str, Tensor]:
        """Computes log odds: `maps`, `(B, S/32, S/32)`, for each position, and `evidence`, `(B,)`, for each image."""
        coarse, pooled = maps[STRIDES[-1]], Encoder.pool(maps)
        cells = coarse.permute(0, 2, 3, 1).flatten(0, 2)
        cell_evidence = self.head.evidence(cells, self.encoder.project(cells))
        return {
            "maps": cell_evidence.view(-1, *coarse.shape[2:]),
            "evidence": self.head.evidence(pooled, self.encoder.project(pooled)),
        }

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        return values["evidence"]

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        return cls(within["encoder"], config, size)

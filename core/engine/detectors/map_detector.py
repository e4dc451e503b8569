"""Detectors that see an image through the encoder's maps alone, so that several share one pass of the encoder.

    padim, nearest = fit_together(encoder, images, [(PaDiM, PaDiMConfig()), (Nearest, NearestConfig())])
    of_padim, of_nearest = predict_together([padim, nearest], images)

The encoder takes most of the time of a quick detector: two detectors then cost little more than one.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from core.engine.backbones import embed as remembered
from core.engine.backbones.embed import inference_copy
from core.engine.backbones.encoder import Encoder
from core.engine.detectors.base import Detector, FitContext, Prediction, at_least_one
from core.engine.progress import Stopped
from core.engine.tensors import to_batch


class Fitting(Protocol):
    """A fit in progress, which is given the encoder's maps batch by batch."""

    def add(self, maps: dict[int, Tensor], start: int) -> None:
        """Adds the maps of images start, start + 1, ... to the fit."""

    def finish(self) -> Any:
        """Returns the fitted detector."""


class MapDetector(Detector):
    """Base of detectors on encoder maps. Their Config has `strides`, the maps read, and `batch`, images per step."""

    encoder: Encoder

    @functools.cached_property
    def reader(self) -> Encoder:
        """The encoder as it is read in scoring: quicker, to be neither trained nor saved."""
        return inference_copy(self.encoder)

    @classmethod
    @abc.abstractmethod
    def fitting(cls, encoder: Encoder, config: Any, count: int, size: int, context: FitContext) -> Fitting:
        """Starts a fit on `count` images of side `size`, fed the maps batch by batch. ValueError on too few images."""

    @abc.abstractmethod
    def read(self, maps: dict[int, Tensor], roi: np.ndarray | None = None) -> Prediction:
        """Reads a batch, given the encoder's maps at least at the strides of the detector's configuration.

        roi: uint8 (B, S, S), for a detector that has something to say of the region of interest as a whole.
        """

    @classmethod
    def fit(cls, encoder: Encoder, images: np.ndarray, config: Any, context: FitContext = FitContext()) -> Self:
        """Fits in one pass over `images`, uint8 (N, S, S, 3); memory is that of the detector and of one batch."""
        return fit_together(encoder, images, [(cls, config)], context)[0]

    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts images uint8 (N, S, S, 3) of the fitted size: smoothed maps on its finest stride's grid."""
        return predict_together([self], images, batch=batch, roi=roi)[0]


@torch.inference_mode()
def fit_together(
    encoder: Encoder,
    images: np.ndarray,
    wanted: Sequence[tuple[type[MapDetector], Any]],
    context: FitContext = FitContext(),
) -> list[Any]:
    """Fits several detectors in one pass of the encoder; each is what its own `fit` gives.

    images: uint8 (N, S, S, 3), normal. Steps are of the largest `batch` asked for. Raises Stopped if asked to stop.
    """
    device = torch.device(context.device)
    encoder = encoder.to(device).eval()
    count, size = len(images), int(images.shape[1])
    fittings = [kind.fitting(encoder, config, count, size, context) for kind, config in wanted]
    strides = {stride for _, config in wanted for stride in config.strides}
    batch = max(config.batch for _, config in wanted)
    steps, reader = -(-count // batch), inference_copy(encoder)
    for step in range(steps):
        if context.should_stop is not None and context.should_stop():
            raise Stopped("the fit was stopped; it takes one pass, so it starts again from the first image")
        start = step * batch
        batch_images = np.asarray(images[start : start + batch])
        maps = maps_of(reader, batch_images, strides)
        for fitting in fittings:
            fitting.add(maps, start)
        if context.report is not None:
            context.report({"step": step + 1, "steps": steps, "images": start + len(batch_images)})
    return [fitting.finish() for fitting in fittings]


@torch.inference_mode()
def predict_together(
    detectors: Sequence[MapDetector], images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None
) -> list[Prediction]:
    """Predicts by several detectors on one encoder for images uint8 (N, S, S, 3), in one pass of the encoder.

    The first one's encoder is used. Raises ValueError if a detector was fitted at another size.
    """
    for detector in detectors:
        detector.demand_size(images)
    reader = detectors[0].reader
    strides = {stride for detector in detectors for stride in detector.config.strides}
    parts: list[list[Prediction]] = [[] for _ in detectors]
    shown = at_least_one(images)
    for start in range(0, len(shown), batch):
        maps = maps_of(reader, np.asarray(shown[start : start + batch]), strides)
        for detector, predictions in zip(detectors, parts, strict=True):
            predictions.append(detector.read(maps, None if roi is None else roi[start : start + batch]))
    return [Prediction.joined(detector_parts, len(images)) for detector_parts in parts]


def maps_of(encoder: Encoder, images: np.ndarray, strides: set[int]) -> dict[int, Tensor]:
    """Computes the encoder's maps of images uint8 (B, S, S, 3) -> {stride: float32 (B, C, h, w)}.

    Not in bf16, which has too few digits for a covariance. Inside `remembered.remembering` an image that was read
    before is not read again.
    """

    def compute(rows: np.ndarray, wanted: set[int]) -> dict[int, Tensor]:
        return encoder.maps(to_batch(rows, encoder.mean.device), wanted)

    memory = remembered.memory()
    return compute(images, strides) if memory is None else memory.maps(encoder, images, strides, compute)

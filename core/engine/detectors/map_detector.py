"""Detectors that use only the encoder's feature maps, so that several detectors can share one pass of the encoder.

    padim, nearest = fit_together(encoder, images, [(PaDiM, PaDiMConfig()), (Nearest, NearestConfig())])
    padim_prediction, nearest_prediction = predict_together([padim, nearest], images)

The encoder takes most of a quick detector's time, so two detectors take little more time than one.
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


class Fitting(Protocol):
    """Fit in progress, which receives the encoder's maps batch by batch."""

    def add(self, maps: dict[int, Tensor], start: int) -> None:
        """Adds the maps of a batch of images to the fit. `start` is the index of the batch's first image."""

    def finish(self) -> Any:
        """Returns the fitted detector."""


class MapDetector(Detector):
    """Base class of detectors that use the encoder's feature maps. `Config` needs the fields `strides` and `batch`."""

    encoder: Encoder

    @functools.cached_property
    def reader(self) -> Encoder:
        """Inference copy of the encoder, which is faster. It is neither trained nor saved."""
        return inference_copy(self.encoder)

    @classmethod
    @abc.abstractmethod
    def fitting(cls, encoder: Encoder, config: Any, count: int, size: int, context: FitContext) -> Fitting:
        """Starts a fit on `count` images with sides of `size` pixels. Raises ValueError if there are too few images."""

    @abc.abstractmethod
    def read(self, maps: dict[int, Tensor], roi: Tensor | None = None) -> dict[str, Tensor]:
        """Computes the heat maps, `maps` `(B, h, w)`, and the extras by name. It is part of exported graphs.

        Args:
            maps: Encoder's maps by stride, `(B, C, h, w)`, for at least the strides of the configuration.
            roi: Regions of interest, `(B, S, S)`, for detectors that pool features over the region, or None.
        """

    @classmethod
    def fit(cls, encoder: Encoder, images: np.ndarray, config: Any, context: FitContext = FitContext()) -> Self:
        """Fits the detector on normal images, `uint8 (N, S, S, 3)`. The encoder processes each image once."""
        return fit_together(encoder, images, [(cls, config)], context)[0]

    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts maps and extras of images, `uint8 (N, S, S, 3)`. Raises ValueError if the fit had another S."""
        return predict_together([self], images, batch=batch, roi=roi)[0]


@torch.inference_mode()
def fit_together(
    encoder: Encoder,
    images: np.ndarray,
    detectors: Sequence[tuple[type[MapDetector], Any]],
    context: FitContext = FitContext(),
) -> list[Any]:
    """Fits several detectors in one pass of the encoder. Returns them in order, as if they were fitted separately.

    Args:
        encoder: Encoder of all detectors, which is moved to the context's device and set to eval mode.
        images: Normal images, `uint8 (N, S, S, 3)`.
        detectors: Class and configuration of each detector. The largest of their `batch` options is used.
        context: Inputs of the fit, as for `Detector.fit`.

    Raises:
        Stopped: If `context.should_stop` returns True.
    """
    device = torch.device(context.device)
    encoder = encoder.to(device).eval()
    count, size = len(images), int(images.shape[1])
    fittings = [kind.fitting(encoder, config, count, size, context) for kind, config in detectors]
    strides = {stride for _, config in detectors for stride in config.strides}
    batch = max(config.batch for _, config in detectors)
    steps, reader = -(-count // batch), inference_copy(encoder)
    for step in range(steps):
        if context.should_stop is not None and context.should_stop():
            raise Stopped("the fit was stopped; the next fit starts again from the first image")
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
    """Predicts images with several detectors that share an encoder, in one pass of the encoder.

    Args:
        detectors: Fitted detectors.
        images: RGB images, `uint8 (N, S, S, 3)`.
        batch: Number of images that are processed at a time.
        roi: Regions of interest, `uint8 (N, S, S)`, 1 inside, or None.

    Raises:
        ValueError: If a detector was fitted on images of another size.
    """
    for detector in detectors:
        detector.demand_size(images)
    reader = detectors[0].reader
    strides = {stride for detector in detectors for stride in detector.config.strides}
    predictions: list[list[Prediction]] = [[] for _ in detectors]
    inputs = at_least_one(images)
    for start in range(0, len(inputs), batch):
        rows = slice(start, start + batch)
        maps = maps_of(reader, np.asarray(inputs[rows]), strides)
        region = None if roi is None else torch.from_numpy(np.array(roi[rows])).to(reader.mean.device)
        for detector, batches in zip(detectors, predictions, strict=True):
            batches.append(Prediction.of(detector.read(maps, region)))
    return [Prediction.joined(batches, len(images)) for batches in predictions]


def maps_of(encoder: Encoder, images: np.ndarray, strides: set[int]) -> dict[int, Tensor]:
    """Computes the encoder's maps of images, `uint8 (B, S, S, 3)`, by stride, each `float32 (B, C, h, w)`.

    `encoder` is an inference copy. bf16 is not used, because it is too imprecise for a covariance. Inside a block of
    `embed.remembering`, the maps of images that were processed before are reused.
    """

    def compute(batch: np.ndarray, missing: set[int]) -> dict[int, Tensor]:
        return remembered.feature_maps(encoder, batch, missing)

    memory = remembered.memory()
    return compute(images, strides) if memory is None else memory.maps(encoder, images, strides, compute)

"""The base class of all detectors: fitted on normal images, a detector gives each image a heat map and a score.

A prediction is made once; the image's score is then taken from it, with or without a region of interest.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import masked_maps
from core.engine.config import BadConfig, Config
from core.engine.progress import Report, Stop
from core.engine.registry import DETECTORS
from core.engine.rows import rows_of


@dataclass
class Prediction:
    """A detector's output for N images.

    maps: float32 (N, h, w), larger is more abnormal, at the detector's own resolution, already smoothed.
    extras: further per-image terms the detector's `image_score` needs, each (N, ...).
    """

    maps: np.ndarray
    extras: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.maps)

    @classmethod
    def joined(cls, parts: Sequence[Prediction], count: int | None = None) -> Prediction:
        """Joins the predictions of batches, in their order; of all images the first `count`, None for all."""
        extras = {name: np.concatenate([batch.extras[name] for batch in parts])[:count] for name in parts[0].extras}
        return cls(np.concatenate([batch.maps for batch in parts])[:count], extras)


@dataclass(frozen=True)
class Marks:
    """Images uint8 (M, S, S, 3) that readers judged, and what they marked there: masks uint8 (M, S, S), 1 inside. An
    empty mask means that the image was called normal.

    roi uint8 (M, S, S) and patients (M,), as in `FitContext`, or None. ignored uint8 (M, S, S), 1 where nothing is
    known (an unfinished case, what readers marked differently), or None. kinds uint8 (M, S, S), inside the mask the
    number, from 1, of one of `names`, 0 where none is named. outlined bool (M, S, S): what the detector before this
    one outlines there.
    """

    images: np.ndarray
    masks: np.ndarray
    roi: np.ndarray | None = None
    patients: np.ndarray | None = None
    ignored: np.ndarray | None = None
    kinds: np.ndarray | None = None
    names: tuple[str, ...] = ()
    outlined: np.ndarray | None = None


@dataclass(frozen=True)
class FitContext:
    """What a fit is given beside encoder, images and configuration; the same for every detector.

    roi: uint8 (N, S, S), 1 inside the region of interest of each image. patients (N,): whose image each is, if that
    is known: a detector that leaves images out, to judge itself by, leaves out whole patients. report: called after
    every step. should_stop: asked before every step. folder: where a fit that takes long keeps its state, so that a
    later call with the same arguments goes on from there. marks: what readers marked, for a detector that learns from
    it.
    """

    roi: np.ndarray | None = None
    device: torch.device | str = "cpu"
    report: Report | None = None
    should_stop: Stop | None = None
    folder: Path | None = None
    patients: np.ndarray | None = None
    marks: Marks | None = None

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with `changes`, for the fit of a part."""
        return dataclasses.replace(self, **changes)

    def of(self, places: np.ndarray) -> Self:
        """Returns the context of the images at `places` (n,) alone: their roi and patients."""
        each = {"roi": self.roi, "patients": self.patients}
        return self.replace(**{name: rows_of(values, places) for name, values in each.items() if values is not None})


class Detector(abc.ABC):
    """Base of the detectors in `DETECTORS`. Each lives in one file and brings its own `Config`.

    size: side in pixels of the images that it was fitted on. presets: named settings, as `Config`s.
    """

    name: ClassVar[str]
    Config: ClassVar[type[Config]]
    presets: ClassVar[Mapping[str, Any]] = {}
    size: int

    @classmethod
    def preset(cls, name: str | None = None) -> Any:
        """Returns the settings of a preset; of None those of `quick`, or the defaults where the detector has no such.

        Raises BadConfig (a ValueError) on a preset that the detector does not have.
        """
        if name and name not in cls.presets:
            raise BadConfig(f"{cls.name} has no preset {name!r}; it has: {', '.join(cls.presets) or 'none'}")
        return cls.presets.get(name or "quick") or cls.Config()

    @classmethod
    @abc.abstractmethod
    def fit(cls, encoder: Encoder, images: np.ndarray, config: Any, context: FitContext = FitContext()) -> Self:
        """Fits a detector on images uint8 (N, S, S, 3), all normal. config: of the class's `Config`.

        Raises Stopped if `context` asks for it.
        """

    @abc.abstractmethod
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts images uint8 (N, S, S, 3) -> Prediction.

        The maps do not depend on `roi` unless the detector says so.
        """

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Scores each image: (N,) float32, by default the maximum of its map.

        `roi` uint8 (N, S, S): only what lies inside counts.
        """
        return masked_maps(prediction.maps, roi).reshape(len(prediction), -1).max(1)

    def changed(self, prediction: Prediction, maps: np.ndarray) -> Prediction:
        """Returns the prediction with other maps (N, h, w), as `image_score` is to read them."""
        return Prediction(maps, prediction.extras)

    def outline_level(self) -> tuple[float, float] | None:
        """Returns the level at which maps are outlined and the one that each part must somewhere exceed.

        None, unless a detector knows them itself: normal images then tell the level.
        """
        return None

    def demand_size(self, images: np.ndarray) -> None:
        """Raises ValueError unless images (N, S, S, 3) have the side of those that it was fitted on, its `size`."""
        side = self.size
        if images.shape[1:] != (side, side, 3):
            raise ValueError(
                f"this {DETECTORS.title(self.name)} was fitted on {side} x {side} RGB images, not {images.shape[1:]}: "
                f"score at size {side}, or fit again"
            )

    @abc.abstractmethod
    def save(self, folder: Path) -> None:
        """Saves everything needed to score, encoder included: safetensors and JSON, written atomically."""

    @classmethod
    @abc.abstractmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self: ...


def at_least_one(images: np.ndarray) -> np.ndarray:
    """Returns images uint8 (N, S, S, 3), a black one where there are none: the maps of no image have a shape, too."""
    return images if len(images) else np.zeros((1, *images.shape[1:]), np.uint8)

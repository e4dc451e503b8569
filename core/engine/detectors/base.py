"""The base class of all detectors: fitted on normal images, a detector gives each image a heat map and a score.

An image is predicted once; its score is then computed from the prediction, with or without a region of interest.
"""

from __future__ import annotations

import abc
import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder, load_encoder, save_encoder
from core.engine.calibration.heatmap import BLOCK, masked_maps
from core.engine.config import BadConfig, Config
from core.engine.files import write_json, write_tensors
from core.engine.progress import Report, Stop
from core.engine.registry import DETECTORS
from core.engine.rows import rows_of
from core.engine.tensors import to_batch


@dataclass
class Prediction:
    """A detector's output for N images.

    maps: float32 (N, h, w), smoothed, at the detector's resolution; larger is more abnormal.
    extras: further values per image that the detector's `image_score` needs, each (N, ...).
    """

    maps: np.ndarray
    extras: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.maps)

    @classmethod
    def of(cls, values: dict[str, Tensor]) -> Prediction:
        """Creates a prediction from tensors by name: `maps`, and the extras."""
        arrays = {name: value.cpu().numpy() for name, value in values.items()}
        return cls(arrays.pop("maps"), arrays)

    def values(self, rows: slice = slice(None)) -> dict[str, Tensor]:
        """Returns the maps and the extras of images `rows` as tensors, by name."""
        return {name: torch.from_numpy(v[rows]) for name, v in {"maps": self.maps, **self.extras}.items()}

    @classmethod
    def joined(cls, batches: Sequence[Prediction], count: int | None = None) -> Prediction:
        """Concatenates one or more predictions and returns the first `count` images, or all if `count` is None."""
        extras = {name: np.concatenate([batch.extras[name] for batch in batches])[:count] for name in batches[0].extras}
        return cls(np.concatenate([batch.maps for batch in batches])[:count], extras)


@dataclass(frozen=True)
class Marks:
    """Annotations by readers: images uint8 (M, S, S, 3) and lesion masks uint8 (M, S, S), 1 inside a lesion.

    An empty mask means that the reader called the image normal.

    roi, patients: as in `FitContext`, for the annotated images.
    ignored: uint8 (M, S, S), 1 where the ground truth is unknown (unfinished cases, pixels on which readers disagree).
    kinds: uint8 (M, S, S), i + 1 where the lesion is of the kind `names[i]`, 0 where no kind was given.
    outlined: bool (M, S, S), the outlines that the previous detector drew, for comparison.
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
    """The inputs of a fit besides encoder, images and configuration; the same for every detector.

    roi: uint8 (N, S, S), 1 inside the region of interest. report: called after every step. should_stop: called before
    every step; True stops the fit. folder: where a long fit saves its state, so that a later call with the same
    arguments resumes it. patients: (N,), the patient of each image, if known; detectors that hold out images then hold
    out all images of a patient. marks: the readers' annotations, for a detector that learns from them. first: such a
    detector, already trained on the same marks; the fit then only fine-tunes it.
    """

    roi: np.ndarray | None = None
    device: torch.device | str = "cpu"
    report: Report | None = None
    should_stop: Stop | None = None
    folder: Path | None = None
    patients: np.ndarray | None = None
    marks: Marks | None = None
    first: Detector | None = None

    def replace(self, **changes: Any) -> Self:
        """Returns a copy in which the fields named in `changes` have new values."""
        return dataclasses.replace(self, **changes)

    def of(self, rows: np.ndarray) -> Self:
        """Returns a copy with the regions of interest and the patients of the images at the indices `rows` (n,)."""
        by_image = {"roi": self.roi, "patients": self.patients}
        return self.replace(**{name: rows_of(values, rows) for name, values in by_image.items() if values is not None})


PARTIAL = "partial"  # folder of an unfinished fit


class Detector(nn.Module, abc.ABC):
    """Base of all detectors, which are registered in `DETECTORS`; `Config` is the class of a detector's options.

    The fitted state is the module's parameters and buffers, which `save` and `load` handle for every detector. Encoders
    and detectors inside it are saved in subfolders. size: side in pixels of the images of the fit, 0 if the detector
    accepts any size. presets: configurations (instances of `Config`) by name.
    """

    name: ClassVar[str]
    Config: ClassVar[type[Config]]
    presets: ClassVar[Mapping[str, Any]] = {}
    Stored: ClassVar[Any] = None  # the class of the saved configuration if it is not `Config`
    config: Any
    size: int = 0

    @classmethod
    def preset(cls, name: str | None = None) -> Any:
        """Returns the configuration of a preset; None means `quick`, or the defaults if the detector has no `quick`.

        Raises BadConfig (a ValueError) if the detector does not have the preset.
        """
        if name and name not in cls.presets:
            raise BadConfig(f"{cls.name} has no preset {name!r}; it has: {', '.join(cls.presets) or 'none'}")
        return cls.presets.get(name or "quick") or cls.Config()

    @classmethod
    @abc.abstractmethod
    def fit(cls, encoder: Encoder, images: np.ndarray, config: Any, context: FitContext = FitContext()) -> Self:
        """Fits a detector on normal images.

        Args:
            encoder: The encoder that the detector reads images with.
            images: uint8 (N, S, S, 3).
            config: An instance of the class's `Config`.
            context: Regions of interest, device, callbacks and the like.

        Raises:
            Stopped: If `context.should_stop` returns True.
        """

    @abc.abstractmethod
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts images uint8 (N, S, S, 3), `batch` at a time. roi: uint8 (N, S, S); only extras may depend on it."""

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Returns the score of each image, float32 (N,), inside its region of interest if given.

        Args:
            prediction: The result of `predict`.
            roi: uint8 (N, S, S), 1 inside the region of interest.
        """
        scores = [np.zeros(0, np.float32)]
        for start in range(0, len(prediction), BLOCK):
            rows = slice(start, start + BLOCK)
            region = None if roi is None else torch.from_numpy(np.array(roi[rows]))
            scores.append(self.score(prediction.values(rows), region).numpy())
        return np.concatenate(scores).astype(np.float32)

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Computes the scores (B,) of a batch: by default the maximum of each map, inside the region of interest.

        Exported graphs contain this computation too, so it may use only operations that ONNX supports.

        Args:
            values: The prediction's maps and extras by name, as `Prediction.values` returns them.
            roi: (B, S, S), 1 inside the region of interest, or None.
        """
        return masked_maps(values["maps"], roi).amax((1, 2))

    def changed(self, prediction: Prediction, maps: np.ndarray) -> Prediction:
        """Returns the prediction with its maps replaced by `maps` (N, h, w), ready for `image_score`."""
        return Prediction(maps, prediction.extras)

    def outline_level(self) -> tuple[float, float] | None:
        """Returns the map value above which pixels are outlined, and the peak that each outlined region must exceed.

        By default None: the threshold then comes from normal images.
        """
        return None

    def demand_size(self, images: np.ndarray) -> None:
        """Raises ValueError unless images (N, S, S, 3) have the side length that the detector was fitted on, `size`."""
        side = self.size
        if side and images.shape[1:] != (side, side, 3):
            raise ValueError(
                f"this {DETECTORS.title(self.name)} was fitted on {side} x {side} RGB images, not {images.shape[1:]}: "
                f"score at size {side}, or fit again"
            )

    def about(self) -> dict[str, Any]:
        """Returns the JSON values that `restored` needs in addition to the configuration, the size and the tensors."""
        return {}

    def _within(self) -> dict[str, Encoder | Detector]:
        """The encoders and detectors inside this one, by name; those nested deeper are not listed."""
        within: dict[str, Encoder | Detector] = {}
        for name, module in self.named_modules(remove_duplicate=False):
            if name and isinstance(module, (Encoder, Detector)) and not any(name.startswith(f"{n}.") for n in within):
                within[name] = module
        return within

    def save(self, folder: Path) -> None:
        """Saves everything that scoring needs into `folder` and deletes the state of an unfinished fit.

        NAME.safetensors holds the tensors; encoders and detectors inside this one go into subfolders; NAME.json is
        written last.
        """
        folder, within = Path(folder), self._within()
        for name, module in within.items():
            module.save(folder / name) if isinstance(module, Detector) else save_encoder(module, folder / name)
        state = self.state_dict()
        tensors = {n: v for n, v in state.items() if not any(n.startswith(f"{name}.") for name in within)}
        write_tensors(folder / f"{self.name}.safetensors", tensors)
        kinds = {name: getattr(module, "name", "") for name, module in within.items()}
        saved = {"config": self.config.to_dict(), "size": self.size, "within": kinds, "about": self.about()}
        write_json(folder / f"{self.name}.json", saved)
        shutil.rmtree(folder / PARTIAL, ignore_errors=True)

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        """Loads a detector that `save` wrote. Raises ValueError if the folder holds none."""
        folder = Path(folder)
        file = folder / f"{cls.name}.json"
        if not file.is_file():
            raise ValueError(f"{folder} holds no fitted {DETECTORS.title(cls.name)} ({file.name}); fit one first")
        saved = json.loads(file.read_text())
        within = {
            name: DETECTORS.get(kind).load(folder / name, device) if kind else load_encoder(folder / name, device)
            for name, kind in saved["within"].items()
        }
        tensors = load_file(file.with_suffix(".safetensors"), device=str(device))
        config = (cls.Stored or cls.Config).from_dict(saved["config"])
        with torch.random.fork_rng(devices=[]):  # the random initial weights are all replaced
            return cls.restored(config, saved["size"], tensors, within, saved["about"]).to(device).eval()

    @classmethod
    @abc.abstractmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        """Builds the detector from its saved state.

        Args:
            config: The configuration of the fit.
            size: The side in pixels of the images of the fit; 0 for any size.
            tensors: Parameters and buffers by name.
            within: The encoders and detectors inside the detector, by name.
            facts: The result of `about`.
        """

    def fill(self, tensors: dict[str, Tensor]) -> Self:
        """Loads all tensors outside inner encoders and detectors. Raises ValueError if any does not fit."""
        state = self.state_dict()
        missing = [n for n in state if n not in tensors and not any(n.startswith(f"{w}.") for w in self._within())]
        wrong = [n for n in tensors if n not in state or state[n].shape != tensors[n].shape] + missing
        if wrong:
            title = DETECTORS.title(self.name)
            raise ValueError(f"this {title} was saved with another configuration ({wrong[0]}); fit it again")
        self.load_state_dict(tensors, strict=False)
        return self


class ImageDetector(Detector):
    """Base of the detectors that take images as input; a `MapDetector` takes the encoder's feature maps instead."""

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @abc.abstractmethod
    def read(self, x: Tensor) -> dict[str, Tensor]:
        """Computes the heat maps, `maps` (B, h, w), and the extras (B, ...) of images x (B, 3, S, S) in [0, 1]."""

    @torch.inference_mode()
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts images uint8 (N, S, S, 3); ignores `roi`. Raises ValueError unless S is the size of the fit."""
        self.demand_size(images)
        inputs = at_least_one(images)
        batches = (np.asarray(inputs[start : start + batch]) for start in range(0, len(inputs), batch))
        return Prediction.joined([Prediction.of(self.read(to_batch(x, self.device))) for x in batches], len(images))


class Tensors(nn.Module):
    """A read-only mapping of names to tensors, which are buffers of the module."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, value in tensors.items():
            self.register_buffer(name, value)

    @classmethod
    def below(cls, prefix: str, tensors: Mapping[str, Tensor]) -> Self:
        """Selects the tensors whose names start with `prefix`, and removes the prefix from the names."""
        return cls({name.removeprefix(prefix): v for name, v in tensors.items() if name.startswith(prefix)})

    def __getitem__(self, name: str) -> Tensor:
        return self.get_buffer(name)

    def items(self) -> list[tuple[str, Tensor]]:
        return list(self.named_buffers())


def at_least_one(images: np.ndarray) -> np.ndarray:
    """Returns images uint8 (N, S, S, 3), or one black image for N = 0, so that the shape of empty maps is known."""
    return images if len(images) else np.zeros((1, *images.shape[1:]), np.uint8)

"""Base classes of the detectors, which are fitted on normal images and give each image a heat map and a score.

`Detector.predict` runs once per image. `Detector.image_score` computes the score from the prediction afterwards, with
or without a region of interest.
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
    """Output of a detector for N images.

    maps: Smoothed heat maps at the detector's resolution, `float32 (N, h, w)`. Larger values are more abnormal.
    extras: Further arrays by name, each `(N, ...)`, such as the values from which `image_score` computes the scores.
    """

    maps: np.ndarray
    extras: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.maps)

    @classmethod
    def of(cls, values: dict[str, Tensor]) -> Prediction:
        """Creates a prediction from tensors by name: `maps` holds the heat maps, and all other entries are extras."""
        arrays = {name: value.cpu().numpy() for name, value in values.items()}
        return cls(arrays.pop("maps"), arrays)

    def values(self, rows: slice = slice(None)) -> dict[str, Tensor]:
        """Returns the maps and extras of the images in the slice `rows` as tensors by name."""
        return {name: torch.from_numpy(v[rows]) for name, v in {"maps": self.maps, **self.extras}.items()}

    @classmethod
    def joined(cls, batches: Sequence[Prediction], count: int | None = None) -> Prediction:
        """Concatenates one or more predictions and keeps the first `count` images, or all images by default."""
        extras = {name: np.concatenate([batch.extras[name] for batch in batches])[:count] for name in batches[0].extras}
        return cls(np.concatenate([batch.maps for batch in batches])[:count], extras)


@dataclass(frozen=True)
class Marks:
    """Readers' annotations of M images of S x S pixels."""

    images: np.ndarray  # RGB images, uint8 (M, S, S, 3)
    masks: np.ndarray  # uint8 (M, S, S), 1 inside a lesion; empty if the reader called the image normal
    roi: np.ndarray | None = None  # regions of interest, uint8 (M, S, S), 1 inside
    patients: np.ndarray | None = None  # patient of each image, (M,), if known
    # Pixels with unknown ground truth, uint8 (M, S, S): unfinished cases, and pixels on which readers disagree.
    ignored: np.ndarray | None = None
    kinds: np.ndarray | None = None  # uint8 (M, S, S), i + 1 in a lesion of the kind names[i], 0 without a kind
    names: tuple[str, ...] = ()  # names of the kinds of lesions
    outlined: np.ndarray | None = None  # regions that the previous detector outlined, bool (M, S, S), for comparison


@dataclass(frozen=True)
class FitContext:
    """Further inputs of a fit besides encoder, images and configuration. All detectors accept the same inputs."""

    roi: np.ndarray | None = None  # regions of interest of the N images, uint8 (N, S, S), 1 inside
    device: torch.device | str = "cpu"
    report: Report | None = None  # receives the progress after every step
    should_stop: Stop | None = None  # called before every step; True stops the fit
    folder: Path | None = None  # where a long fit saves its state, from which the same call resumes
    patients: np.ndarray | None = None  # patient of each image, (N,), if known; images of a patient are split together
    marks: Marks | None = None  # readers' annotations, for detectors that learn from them
    first: Detector | None = None  # detector already trained on the same annotations, which the fit only fine-tunes

    def replace(self, **changes: Any) -> Self:
        """Returns a copy of the context in which the given fields have new values."""
        return dataclasses.replace(self, **changes)

    def of(self, rows: np.ndarray) -> Self:
        """Returns a copy of the context for the subset of images with the indices `rows`, `(n,)`."""
        by_image = {"roi": self.roi, "patients": self.patients}
        return self.replace(**{name: rows_of(values, rows) for name, values in by_image.items() if values is not None})


PARTIAL = "partial"  # subfolder in which an unfinished fit is saved


class Detector(nn.Module, abc.ABC):
    """Base class of all detectors, which are registered in `DETECTORS`.

    The fitted state consists of the module's parameters and buffers, which `save` and `load` handle for every detector.
    Encoders and detectors nested in a detector are saved in subfolders.

    Config: Class of the detector's options.
    presets: Configurations by name, instances of `Config`.
    size: Side length in pixels of the images of the fit, or 0 if the detector accepts any size.
    """

    name: ClassVar[str]
    Config: ClassVar[type[Config]]
    presets: ClassVar[Mapping[str, Any]] = {}
    Stored: ClassVar[Any] = None  # the class of the saved configuration if it is not `Config`
    config: Any
    size: int = 0

    @classmethod
    def preset(cls, name: str | None = None) -> Any:
        """Returns the preset `name`. Defaults to the preset `quick` or, if there is none, to the default options.

        Raises BadConfig (a ValueError) if the detector has no preset of this name.
        """
        if name and name not in cls.presets:
            raise BadConfig(f"{cls.name} has no preset {name!r}; it has: {', '.join(cls.presets) or 'none'}")
        return cls.presets.get(name or "quick") or cls.Config()

    @classmethod
    @abc.abstractmethod
    def fit(cls, encoder: Encoder, images: np.ndarray, config: Any, context: FitContext = FitContext()) -> Self:
        """Fits a detector on normal images.

        Args:
            encoder: Encoder whose features the detector uses.
            images: Normal images, `uint8 (N, S, S, 3)`.
            config: Options of the detector, an instance of `Config`.
            context: Regions of interest, device, callbacks and further inputs.

        Raises:
            Stopped: If `context.should_stop` returns True.
        """

    @abc.abstractmethod
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts the heat maps and extras of images.

        Args:
            images: RGB images, `uint8 (N, S, S, 3)`.
            batch: Number of images that are processed at a time.
            roi: Regions of interest, `uint8 (N, S, S)`, 1 inside, or None. Heat maps do not depend on `roi`.
        """

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Computes the score of each image, `float32 (N,)`.

        Args:
            prediction: Result of `predict`.
            roi: Regions of interest, `uint8 (N, S, S)`, 1 inside, or None to score whole images.
        """
        scores = [np.zeros(0, np.float32)]
        for start in range(0, len(prediction), BLOCK):
            rows = slice(start, start + BLOCK)
            region = None if roi is None else torch.from_numpy(np.array(roi[rows]))
            scores.append(self.score(prediction.values(rows), region).numpy())
        return np.concatenate(scores).astype(np.float32)

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Computes the scores of a batch, `(B,)`, by default the maximum of each heat map in the region of interest.

        This method is also part of exported graphs, so it may use only operations that ONNX supports.

        Args:
            values: Maps and extras by name, as `Prediction.values` returns them.
            roi: Regions of interest, `(B, S, S)`, 1 inside, or None to score whole images.
        """
        return masked_maps(values["maps"], roi).amax((1, 2))

    def changed(self, prediction: Prediction, maps: np.ndarray) -> Prediction:
        """Returns a copy of the prediction with new heat maps, `(N, h, w)`, that `image_score` can score."""
        return Prediction(maps, prediction.extras)

    def outline_level(self) -> tuple[float, float] | None:
        """Returns the map value above which pixels are outlined, and the peak that each outlined region must exceed.

        Returns None by default; the threshold of outlines is then derived from normal images.
        """
        return None

    def demand_size(self, images: np.ndarray) -> None:
        """Raises ValueError if images, `(N, S, S, 3)`, do not have the side length `size`, unless `size` is 0 (any)."""
        side = self.size
        if side and images.shape[1:] != (side, side, 3):
            raise ValueError(
                f"this {DETECTORS.title(self.name)} was fitted on {side} x {side} RGB images, not {images.shape[1:]}: "
                f"score at size {side}, or fit again"
            )

    def about(self) -> dict[str, Any]:
        """Returns the JSON values that `restored` needs in addition to configuration, size and tensors."""
        return {}

    def _within(self) -> dict[str, Encoder | Detector]:
        """Returns the outermost encoders and detectors nested in this detector, by name."""
        within: dict[str, Encoder | Detector] = {}
        for name, module in self.named_modules(remove_duplicate=False):
            if name and isinstance(module, (Encoder, Detector)) and not any(name.startswith(f"{n}.") for n in within):
                within[name] = module
        return within

    def save(self, folder: Path) -> None:
        """Saves the detector in `folder` and deletes the saved state of an unfinished fit.

        Writes NAME.safetensors, then NAME.json, where NAME is the detector's name. Nested encoders and detectors are
        saved in subfolders.
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
        """Loads a detector that `save` wrote. Raises ValueError if the folder contains no detector of this class."""
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
        """Creates the detector from its saved state.

        Args:
            config: Configuration with which the detector was fitted.
            size: Side length in pixels of the images of the fit, or 0 for any size.
            tensors: Parameters and buffers by name.
            within: Nested encoders and detectors by name.
            facts: JSON values that `about` returned.
        """

    def fill(self, tensors: dict[str, Tensor]) -> Self:
        """Loads all tensors outside nested encoders and detectors. Raises ValueError if one is missing or wrong."""
        state = self.state_dict()
        missing = [n for n in state if n not in tensors and not any(n.startswith(f"{w}.") for w in self._within())]
        wrong = [n for n in tensors if n not in state or state[n].shape != tensors[n].shape] + missing
        if wrong:
            title = DETECTORS.title(self.name)
            raise ValueError(f"this {title} was saved with another configuration ({wrong[0]}); fit it again")
        self.load_state_dict(tensors, strict=False)
        return self


class ImageDetector(Detector):
    """Base class of detectors that process images. A `MapDetector` processes the encoder's feature maps instead."""

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @abc.abstractmethod
    def read(self, x: Tensor) -> dict[str, Tensor]:
        """Computes the heat maps `maps`, `(B, h, w)`, and extras, `(B, ...)`, of images x in [0, 1], `(B, 3, S, S)`."""

    @torch.inference_mode()
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts the heat maps and extras of images, `uint8 (N, S, S, 3)`. Does not use `roi`.

        Raises ValueError if S is not the side length of the images of the fit.
        """
        self.demand_size(images)
        inputs = at_least_one(images)
        batches = (np.asarray(inputs[start : start + batch]) for start in range(0, len(inputs), batch))
        return Prediction.joined([Prediction.of(self.read(to_batch(x, self.device))) for x in batches], len(images))


class Tensors(nn.Module):
    """Module whose buffers can be read like a dictionary of tensors."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, value in tensors.items():
            self.register_buffer(name, value)

    @classmethod
    def below(cls, prefix: str, tensors: Mapping[str, Tensor]) -> Self:
        """Creates the module from the tensors whose names start with `prefix`, which is removed from the names."""
        return cls({name.removeprefix(prefix): v for name, v in tensors.items() if name.startswith(prefix)})

    def __getitem__(self, name: str) -> Tensor:
        return self.get_buffer(name)

    def items(self) -> list[tuple[str, Tensor]]:
        return list(self.named_buffers())


def at_least_one(images: np.ndarray) -> np.ndarray:
    """Returns the images, or one black image if there are none, so that the size of the heat maps can be determined."""
    return images if len(images) else np.zeros((1, *images.shape[1:]), np.uint8)

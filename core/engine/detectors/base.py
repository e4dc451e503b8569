"""The base class of all detectors: fitted on normal images, a detector gives each image a heat map and a score.

A prediction is made once; the image's score is then taken from it, with or without a region of interest.
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
from core.engine.calibration.heatmap import masked_maps
from core.engine.config import BadConfig, Config
from core.engine.files import write_json, write_tensors
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


PARTIAL = "partial"  # folder of an unfinished fit


class Detector(nn.Module, abc.ABC):
    """Base of the detectors in `DETECTORS`. Each lives in one file and brings its own `Config`.

    What was fitted is the module's parameters and buffers, which `save` and `load` store for every detector. Encoders
    and other detectors within it are stored in folders of their own. size: side in pixels of the images that it was
    fitted on, 0 if it takes any. presets: named settings, as `Config`s.
    """

    name: ClassVar[str]
    Config: ClassVar[type[Config]]
    presets: ClassVar[Mapping[str, Any]] = {}
    Stored: ClassVar[Any] = None  # the kind of its stored configuration, if that is not `Config`
    config: Any
    size: int = 0

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
        return masked_maps(prediction.maps, roi).max((1, 2))

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
        if side and images.shape[1:] != (side, side, 3):
            raise ValueError(
                f"this {DETECTORS.title(self.name)} was fitted on {side} x {side} RGB images, not {images.shape[1:]}: "
                f"score at size {side}, or fit again"
            )

    def about(self) -> dict[str, Any]:
        """Returns what `restored` needs beside the configuration, the size and tensors, as JSON takes it."""
        return {}

    def _within(self) -> dict[str, Encoder | Detector]:
        """The encoders and detectors within it, by name; not what lies within those."""
        within: dict[str, Encoder | Detector] = {}
        for name, module in self.named_modules(remove_duplicate=False):
            if name and isinstance(module, (Encoder, Detector)) and not any(name.startswith(f"{n}.") for n in within):
                within[name] = module
        return within

    def save(self, folder: Path) -> None:
        """Saves all that scoring needs into `folder` and deletes the state of an unfinished fit.

        NAME.safetensors has the tensors; encoders and detectors within it have folders of their own; NAME.json is last.
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
        """Loads what `save` wrote. Raises ValueError if there is none."""
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
        with torch.random.fork_rng(devices=[]):  # weights that are made meanwhile are all replaced
            return cls.restored(config, saved["size"], tensors, within, saved["about"]).to(device).eval()

    @classmethod
    @abc.abstractmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        """Builds the detector from what `save` stored: tensors by name, encoders and detectors within it, `about`."""

    def fill(self, tensors: dict[str, Tensor]) -> Self:
        """Loads tensors by name; what lies within has its own already. Raises ValueError if one is missing."""
        missing, unknown = self.load_state_dict(tensors, strict=False)
        wrong = [*unknown, *(n for n in missing if not any(n.startswith(f"{name}.") for name in self._within()))]
        if wrong:
            title = DETECTORS.title(self.name)
            raise ValueError(f"this {title} was saved with another configuration ({wrong[0]}); fit it again")
        return self


class Tensors(nn.Module):
    """Tensors by name, as buffers."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, value in tensors.items():
            self.register_buffer(name, value)

    @classmethod
    def below(cls, prefix: str, tensors: Mapping[str, Tensor]) -> Self:
        """Takes those whose name begins with `prefix`, without it."""
        return cls({name.removeprefix(prefix): v for name, v in tensors.items() if name.startswith(prefix)})

    def __getitem__(self, name: str) -> Tensor:
        return self.get_buffer(name)

    def items(self) -> list[tuple[str, Tensor]]:
        return list(self.named_buffers())


def at_least_one(images: np.ndarray) -> np.ndarray:
    """Returns images uint8 (N, S, S, 3), a black one where there are none: the maps of no image have a shape, too."""
    return images if len(images) else np.zeros((1, *images.shape[1:]), np.uint8)

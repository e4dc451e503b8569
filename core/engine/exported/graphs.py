"""Exports a fitted detector as one ONNX network, from image and region of interest to heat map and scores.

The network contains normalisation, the encoder, the detector, its scales and the scoring rule, in float32, and uses
only operations that ONNX supports. It calls the detector's methods `read` and `score`. A file is kept only if its
scores agree with those of the detector to within CLOSE.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from core.engine.backbones.embed import inference_copy
from core.engine.detectors.base import Detector
from core.engine.detectors.ensemble.ensemble import ROI, Ensemble, is_quick
from core.engine.detectors.igd.igd import IGD
from core.engine.detectors.lesion_head.lesion_head import LesionHead
from core.engine.detectors.map_detector import MapDetector
from core.engine.mean_colour import MeanColour
from core.engine.registry import DETECTORS

EXPORTED = (MapDetector, LesionHead, IGD, Ensemble)
INPUTS, OUTPUTS = ("image", "roi"), ("map", "score", "score_roi")
CLOSE = 1e-4  # largest allowed score difference, relative to the score if the score is above 1


class CannotExport(ValueError):
    """Raised if a detector cannot be exported as a graph. The message names the detector and states why."""


def exportable() -> list[str]:
    """Returns the names of the detectors that can be exported as a graph."""
    return [name for name in DETECTORS.names() if issubclass(DETECTORS.get(name), EXPORTED)]


class Graph(nn.Module):
    """Exported network that maps images and regions of interest to heat maps and scores."""

    def __init__(self, detector: Detector) -> None:
        """Builds the network. Raises CannotExport if the detector, or a member of an ensemble, cannot be exported."""
        super().__init__()
        self.detector, self.reader = detector, reader_of(detector)

    def forward(self, images: Tensor, roi: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns maps `(N, h, w)`, scores `(N,)` of the entire images and scores `(N,)` of the regions of interest.

        The images are uint8 `(N, S, S, 3)`, the regions of interest uint8 `(N, S, S)`.
        """
        values = self.reader(images, roi)
        return values["maps"], self.detector.score(values, None), self.detector.score(values, roi)


def reader_of(detector: Detector) -> nn.Module:
    """Returns a network that computes a detector's maps and extras. Raises CannotExport if that is impossible."""
    if isinstance(detector, Ensemble):
        return _Ensemble(detector)
    if isinstance(detector, EXPORTED):
        return _Single(detector)
    title, reason = DETECTORS.title(detector.name), f"only {', '.join(exportable())} can be exported"
    if detector.name == "learnt":
        reason = "its map and score are combined with its base's; export the base, or score images in this app"
    raise CannotExport(f"{title} ({detector.name}) cannot be exported as a graph: {reason}")


class _Single(nn.Module):
    def __init__(self, detector: Detector) -> None:
        super().__init__()
        self.detector: Any = detector
        self.encoder = inference_copy(detector.encoder) if isinstance(detector, MapDetector) else None

    def forward(self, images: Tensor, roi: Tensor) -> Any:
        x = floats(images)
        if self.encoder is None:
            return self.detector.read(x)
        return self.detector.read(self.encoder.maps(x, self.detector.config.strides), roi)


class _Ensemble(nn.Module):
    def __init__(self, detector: Ensemble) -> None:
        super().__init__()
        self.detector = detector
        self.quick = [name for name, member in detector.config.members.items() if is_quick(member)]
        quick: list[Any] = [detector.members[name] for name in self.quick]
        self.encoder = inference_copy(quick[0].encoder) if quick else None
        self.strides = {stride for member in quick for stride in member.config.strides}
        slow = {name: reader_of(member) for name, member in detector.members.items() if name not in self.quick}
        self.slow = nn.ModuleDict(slow)
        self.colours = nn.ModuleDict({name: _Colour(colour) for name, colour in detector.colours.items()})

    def forward(self, images: Tensor, roi: Tensor) -> dict[str, Tensor]:
        detector, members = self.detector, cast(dict[str, Any], self.detector.members)
        values: dict[str, dict[str, Tensor]] = {}
        if self.encoder is not None:
            maps = self.encoder.maps(floats(images), self.strides)
            values = {name: members[name].read(maps, roi) for name in self.quick}
        for name, reader in self.slow.items():
            side = detector.config.members[name].side
            is_shrunk = side and images.shape[1] > side
            values[name] = reader(shrunk(images, side), shrunk(roi, side)) if is_shrunk else reader(images, roi)
        colours = {name: colour(images, roi if name.endswith(ROI) else None) for name, colour in self.colours.items()}
        return detector.joined(values, colours, -(-images.shape[1] // detector.config.stride))


class _Colour(nn.Module):
    """`MeanColour.distances` as a network; colours are averaged over `roi`, or over the image if `roi` is None."""

    def __init__(self, colour: MeanColour) -> None:
        super().__init__()
        self.mean, self.precision = torch.from_numpy(colour.mean), torch.from_numpy(colour.precision)

    def forward(self, images: Tensor, roi: Tensor | None) -> Tensor:
        pixels = images.double().flatten(1, 2)  # (N, P, 3)
        mean = pixels.mean(1)
        if roi is not None:
            inside = roi.double().flatten(1)[..., None]
            count = inside.sum(1)
            mean = torch.where(count > 0, (pixels * inside).sum(1) / count.clamp_min(1), mean)
        offset = mean - self.mean
        return ((offset @ self.precision) * offset).sum(1).sqrt().float()


def floats(images: Tensor) -> Tensor:
    """Converts uint8 `(N, S, S, 3)` to float32 `(N, 3, S, S)` in [0, 1], as `tensors.to_batch` does."""
    return images.permute(0, 3, 1, 2).float() / 255.0


def shrunk(pixels: Tensor, side: int) -> Tensor:
    """Shrinks uint8 `(N, S, S)` or `(N, S, S, 3)` to side length `side`, as OpenCV does with INTER_AREA.

    Values that end in .5 are rounded to the even number, or up if `side` is half of S.
    """
    size = int(pixels.shape[1])
    weights = torch.from_numpy(_shares(size, side))
    x = pixels.float() if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2).float()
    x = weights @ x @ weights.T
    x = (x + 0.5).floor() if size == 2 * side else x.round()
    x = x.clamp(0, 255).to(torch.uint8)
    return x if pixels.ndim == 3 else x.permute(0, 2, 3, 1)


def _shares(size: int, side: int) -> np.ndarray:
    """Returns a matrix `(side, size)` with the fraction of each output pixel that each input pixel covers."""
    scale = size / side
    ends = np.arange(side + 1) * scale
    low = np.maximum(ends[:-1, None], np.arange(size))
    high = np.minimum(ends[1:, None], np.arange(1, size + 1))
    return (np.maximum(high - low, 0) / scale).astype(np.float32)


@dataclass(frozen=True)
class Written:
    """Size of an ONNX file in `bytes`, and the largest `difference` of its scores from the detector's (`furthest`)."""

    bytes: int
    difference: float


def library() -> Any:
    """Imports and returns onnxruntime. Raises CannotExport if a required package is missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise CannotExport(f"an export needs {error.name}: pip install 'pmsacl-studio[export]'") from None
    return onnxruntime


def write_onnx(detector: Detector, images: np.ndarray, roi: np.ndarray, file: Path) -> Written:
    """Writes a detector's graph to an ONNX file and compares its scores with the detector's on sample images.

    The graph accepts 1 to 4096 images. The sample images are uint8 `(N, S, S, 3)`, their regions of interest uint8 `(N,
    S, S)`. Raises CannotExport, and leaves no file, if the detector cannot be exported or a score differs by more than
    CLOSE in onnxruntime.
    """
    onnxruntime = library()
    graph = Graph(detector).eval().requires_grad_(False)
    at_once = torch.export.Dim("images", min=1, max=4096)
    two_of_one = np.repeat(images[:1], 2, 0), np.repeat(roi[:1], 2, 0)
    example = tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in two_of_one)
    with full_precision(detector), quiet(), torch.no_grad():
        program = torch.onnx.export(
            graph, example, input_names=list(INPUTS), output_names=list(OUTPUTS), dynamo=True,
            dynamic_shapes={"images": {0: at_once}, "roi": {0: at_once}}, external_data=False, verbose=False,
        )  # fmt: skip
    assert program is not None
    file.parent.mkdir(parents=True, exist_ok=True)
    program.save(str(file))
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    outputs = session.run(list(OUTPUTS), dict(zip(INPUTS, (images, roi), strict=True)))
    difference = furthest(outputs[1:], scores_of(detector, images, roi))
    if not difference <= CLOSE:
        file.unlink()
        raise CannotExport(f"the graph's scores differ from the detector's by {difference:.2g}; nothing was written")
    return Written(file.stat().st_size, difference)


def scores_of(detector: Detector, images: np.ndarray, roi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the detector's scores `(N,)` of entire images and of regions of interest, in float32 as in the graph."""
    with full_precision(detector):
        prediction = detector.predict(images, roi=roi)
        return detector.image_score(prediction), detector.image_score(prediction, roi)


@contextlib.contextmanager
def full_precision(detector: Detector) -> Iterator[None]:
    """Context manager: a detector's lesion heads compute in float32 in the block, even if they would use bfloat16."""
    if isinstance(detector, LesionHead):
        config = detector.config
        detector.config = config.replace(autocast=False)
        try:
            yield
        finally:
            detector.config = config
        return
    with contextlib.ExitStack() as stack:
        for member in getattr(detector, "members", {}).values():
            stack.enter_context(full_precision(member))
        yield


def furthest(scores: Any, expected: Any) -> float:
    """Returns the largest difference between scores and expected scores, relative to expected scores above 1."""
    differences = [np.abs(a - b) / np.maximum(1, np.abs(b)) for a, b in zip(scores, expected, strict=True)]
    return float(np.max(differences))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Context manager that suppresses log messages, warnings and output of the exporter."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)

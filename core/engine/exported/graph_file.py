"""A detector's graph as an ONNX file, which is written only if its scores equal the detector's."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.engine.detectors.base import Detector
from core.engine.detectors.lesion_head.lesion_head import LesionHead
from core.engine.exported.graphs import CannotExport, Graph

INPUTS, OUTPUTS = ("image", "roi"), ("map", "score", "score_roi")
CLOSE = 1e-4  # largest difference of a score, relative to the score if that is above 1


@dataclass(frozen=True)
class Written:
    """Facts of a written ONNX file.

    bytes: its size. difference: the maximum score difference on the comparison images, as `furthest` computes it.
    """

    bytes: int
    difference: float


def library() -> Any:
    """Imports and returns onnxruntime. Raises CannotExport, which names the missing package and how to install it."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise CannotExport(f"an export needs {error.name}: pip install 'pmsacl-studio[export]'") from None
    return onnxruntime


def write_onnx(detector: Detector, images: np.ndarray, roi: np.ndarray, file: Path) -> Written:
    """Writes a detector's graph to `file` and compares the two on images uint8 (N, S, S, 3) and roi uint8 (N, S, S).

    The graph is run by onnxruntime and takes any number of images at a time. Raises CannotExport, and leaves no file,
    if the detector has no graph or if a score differs by more than CLOSE.
    """
    onnxruntime = library()
    graph = Graph(detector).eval().requires_grad_(False)
    at_once = torch.export.Dim("images", min=1, max=4096)
    two_of_one = np.repeat(images[:1], 2, 0), np.repeat(roi[:1], 2, 0)
    example = tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in two_of_one)
    with quiet(), torch.no_grad():
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
    """Computes the detector's scores (N,) of whole images and of regions of interest, in float32 as in the graph."""
    with full_precision(detector):
        prediction = detector.predict(images, roi=roi)
        return detector.image_score(prediction), detector.image_score(prediction, roi)


@contextlib.contextmanager
def full_precision(detector: Detector) -> Iterator[None]:
    """Makes a detector's lesion heads compute in float32 inside the block, even on devices that would use bfloat16."""
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
    """Returns the largest difference between two lists of scores, relative to the expected score if that is above 1."""
    differences = [np.abs(a - b) / np.maximum(1, np.abs(b)) for a, b in zip(scores, expected, strict=True)]
    return float(np.max(differences))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silences the exporter's log messages, warnings and prints inside the block."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)

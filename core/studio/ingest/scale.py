"""One scale from stored values to 8 bits for all images of one scanner in a study, stored with the study.

Without it, an image of more than 8 bits would be displayed by its own brightest pixel, and a detector would see
brightness that depends on one marker or dead pixel. If a DICOM file has a window or VOI LUT, that is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from core.studio.ingest import dicom
from core.studio.ingest.decode import Probe, container, finite, read_raw

TAILS = (0.1, 99.9)  # percentiles of an image whose values fit no container: stray pixels do not count


@dataclass(frozen=True)
class Measured:
    """The range of one image's values. scanner: identifies the images that share a scale, by device or file format."""

    scanner: str
    low: float
    high: float


def measure(path: Path, frame: int, head: Probe, header: Any = None) -> Measured | None:
    """Measures an image of more than 8 bits; None for any other, and for a DICOM file that has its own window.

    header: the dataset of a DICOM file. The range of an image is between the percentiles TAILS of its values; for whole
    numbers from 0 to 65535 in other files, it is the smallest of 8, 10, 12, 14 or 16 bits that holds them.
    """
    if head.bits <= 8 or (header is not None and dicom.has_window(header)):
        return None
    values = read_raw(path, frame)
    if values.dtype == np.uint8 or (header is not None and values.ndim == 3):
        return None
    who = f"{head.format}, {head.bits} bits" if header is None else _scanner(header)
    if header is None and values.dtype == np.uint16:
        return Measured(who, 0.0, float((1 << container(values)) - 1))
    low, high = np.percentile(finite(values).astype(np.float64), TAILS)
    return Measured(who, float(low), float(high))


class Frame(Protocol):
    """One frame that was read, and the row that its case will have."""

    measured: Measured | None
    row: dict[str, Any]


def agree(frames: Sequence[Frame], known: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Sets each frame's `scale` to the scale of its scanner; returns all scales, known ones unchanged.

    The scale of a new scanner spans the lowest `low` to the highest `high` of its frames.
    """
    scales: dict[str, list[float]] = {}
    for measured in (frame.measured for frame in frames if frame.measured):
        low, high = scales.get(measured.scanner, (measured.low, measured.high))
        scales[measured.scanner] = [min(low, measured.low), max(high, measured.high)]
    scales |= {who: list(scale) for who, scale in known.items()}
    for frame in frames:
        frame.row["scale"] = json.dumps(scales[frame.measured.scanner]) if frame.measured else None
    return scales


def of_case(case: Mapping[str, Any]) -> tuple[float, float] | None:
    """Returns the scale in a case's row; None for images of 8 bits and for studies from before scales existed."""
    if not case["scale"]:
        return None
    low, high = json.loads(case["scale"])
    return float(low), float(high)


def _scanner(ds: Any) -> str:
    """Returns a digest of the elements that identify a device and its kind of image, serial number included."""
    names = ("Modality", "Manufacturer", "ManufacturerModelName", "DeviceSerialNumber", "StationName", "Units")
    values = [dicom.text(ds, name) for name in (*names, "PhotometricInterpretation", "BitsStored")]
    return "scanner " + hashlib.sha256("\n".join(values).encode()).hexdigest()[:16]

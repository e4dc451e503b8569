"""Reads images of all supported formats (PNG, JPEG, TIFF, BMP, WebP, GIF, DICOM) and single frames of recordings.

The header of a file is read first, so that oversized images are never decoded.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from core.studio.ingest import dicom, dicom_pixels, tiff, video
from core.studio.ingest.unreadable import Unreadable, limit, refusing

SUFFIXES = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".dcm", ".dicom", ".ima"}
_GREY16 = ("I;16", "I;16B", "I;16L", "I", "F")


class Budget:
    """Limits the amount of a resource that threads use at the same time. Requests above `small` wait for their turn."""

    def __init__(self, budget: int, small: int = 0):
        self.budget, self.small, self._free = budget, small, budget
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def taken(self, amount: int) -> Iterator[None]:
        """Context manager that reserves `amount` (at most the whole budget) while the block runs."""
        if amount <= self.small:
            yield
            return
        amount, turn = min(amount, self.budget), object()
        with self._changed:
            self._waiting.append(turn)
            self._changed.wait_for(lambda: self._waiting[0] is turn and self._free >= amount)
            self._waiting.popleft()
            self._free -= amount
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += amount
                self._changed.notify_all()


DECODING = Budget(160_000_000, small=4_000_000)  # pixels: one image of the maximum size, or several smaller images


@dataclass(frozen=True)
class Probe:
    """Properties of an image or recording, as stated in the header of the file.

    Width and height are those after rotation by EXIF data. EXIF data that follow the pixels of a PNG are ignored,
    because Pillow would have to decode the whole file to read them.
    """

    width: int
    height: int
    bits: int  # per value
    frames: int
    modality: str | None
    format: str
    rate: float | None = None  # frames per second of a recording


@refusing
def probe(path: str | os.PathLike) -> Probe:
    """Reads the header of an image or recording. Raises Unreadable, with the reason, if the file cannot be read."""
    path = Path(path)
    _regular(path)
    if video.is_video(path):
        width, height, frames, rate = video.probe(path)
        return Probe(width, height, 8, frames, None, video.FORMAT, rate)
    if dicom.is_dicom(path):
        return Probe(*dicom.probe(path), "DICOM")
    if tiff.is_tiff(path):
        return Probe(*tiff.probe(path), None, "TIFF")
    with _open(path) as image:
        width, height = image.size
        behind = image.format == "PNG" and "exif" not in image.info
        if not behind and image.getexif().get(0x0112, 1) >= 5:
            width, height = height, width
        frames = getattr(image, "n_frames", 1) if image.format == "GIF" else 1
        return Probe(width, height, _bits(image, path), frames, None, image.format or path.suffix[1:].upper())


@refusing
def read_image(path: str | os.PathLike, frame: int = 0, scale: tuple[float, float] | None = None) -> np.ndarray:
    """Reads an image in upright orientation and at full resolution as RGB, uint8 `(H, W, 3)`.

    Above 8 bits, the two values in `scale` become 0 and 255. By default, the image itself determines these values.
    """
    return _read(
        path,
        frame,
        lambda file, number: dicom_pixels.read_display(file, number, scale),
        lambda grey: np.repeat(to_8bit(grey, scale)[..., None], 3, 2),
        lambda deep: to_8bit(deep, scale),
    )


@refusing
def read_raw(path: str | os.PathLike, frame: int = 0) -> np.ndarray:
    """Reads an image without scaling: uint8 `(H, W, 3)` or, above 8 bits, `(H, W)` or `(H, W, 3)` of the stored type.

    Grey DICOM images are returned as float32 in the units of their modality (Hounsfield units for CT).
    """

    def stored(grey: np.ndarray) -> np.ndarray:
        fits = grey.dtype.kind in "iu" and grey.min() >= 0 and grey.max() < 65536
        return grey.astype(np.uint16) if fits else grey

    return _read(path, frame, dicom_pixels.read_values, stored, lambda deep: deep)


def _read(
    path: str | os.PathLike,
    frame: int,
    of_dicom: Callable[[Path, int], np.ndarray],
    of_grey: Callable[[np.ndarray], np.ndarray],
    of_deep: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Reads an image. `of_grey` converts grey values above 8 bits `(H, W)`; `of_deep` converts 16-bit colours."""
    path = Path(path)
    _regular(path)
    if video.is_video(path):
        return video.read_frame(path, frame)
    if dicom.is_dicom(path):
        width, height, *_ = dicom.probe(path)
        with DECODING.taken(width * height):
            return of_dicom(path, frame)
    if tiff.is_tiff(path):
        width, height, *_ = tiff.probe(path)
        with DECODING.taken(width * height):
            pixels = tiff.read(path, frame)
            if pixels.ndim == 3:
                return pixels if pixels.dtype == np.uint8 else of_deep(pixels)
            return of_grey(pixels)
    with _open(path, frame) as image, DECODING.taken(image.width * image.height):
        if image.mode in _GREY16:
            return of_grey(np.asarray(ImageOps.exif_transpose(_load(image))))
        if _bits(image, path) == 16:
            deep = _deep_colour(path, image.getexif().get(0x0112, 1))
            if deep is not None:
                return of_deep(deep)
        return tiff.flat(ImageOps.exif_transpose(_load(image)))


def _regular(path: Path) -> None:
    if not path.exists():
        raise Unreadable("the link is broken" if path.is_symlink() else "the file does not exist")
    if not path.is_file():
        raise Unreadable("it is not a regular file")
    if path.stat().st_size == 0:
        raise Unreadable("the file is empty (0 bytes)")


def _open(path: Path, frame: int = 0) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(path)
        limit(*image.size)
        if frame:
            image.seek(frame)
        return image
    except Image.DecompressionBombError:
        raise Unreadable("too large to be decoded safely") from None
    except UnidentifiedImageError:
        raise Unreadable(f"not an image, or of an unsupported format{_looks_like(path)}") from None
    except EOFError:
        raise Unreadable(f"it has no frame {frame}") from None
    except (OSError, SyntaxError, ValueError, TypeError, OverflowError) as error:
        raise error if isinstance(error, Unreadable) else Unreadable("damaged, or of an unsupported format") from None


def _looks_like(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(512)
    try:
        head.decode("utf-8")
        return " (it looks like text)"
    except UnicodeDecodeError:
        return ""


def _load(image: Image.Image) -> Image.Image:
    try:
        image.load()
        return image
    except Image.DecompressionBombError:
        raise Unreadable("too large to be decoded safely") from None
    except MemoryError:
        raise Unreadable("not enough memory to decode it") from None
    except Exception as error:  # Pillow's plugins raise errors of any kind on a damaged stream
        logging.getLogger(__name__).debug("a decoder rejected the file", exc_info=error)
        raise Unreadable("damaged or cut short") from None


def _bits(image: Image.Image, path: Path) -> int:
    if image.mode in ("I", "F"):
        return 16 if image.format == "PNG" else 32
    if image.mode.startswith("I;16"):
        return 16
    if image.mode == "1":
        return 1
    if image.format == "PNG":  # Pillow hides the bit depth of a 16-bit colour PNG, which byte 24 states
        with path.open("rb") as file:
            return 16 if file.read(25)[24:] == b"\x10" else 8
    return 8


def _deep_colour(path: Path, orientation: int) -> np.ndarray | None:
    """Reads a 16-bit colour PNG, which Pillow cannot, as uint16 `(H, W, 3)`, or returns None if OpenCV fails."""
    image = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION)
    if image is None or image.dtype != np.uint16:
        return None
    if image.ndim == 2:
        image = np.repeat(image[..., None], 3, 2)
    if image.shape[2] == 4:
        alpha = image[..., 3:].astype(np.float64) / 65535
        image = (image[..., :3] * alpha).round().astype(np.uint16)
    return tiff.turned(image[..., ::-1], orientation)


CONTAINERS = (8, 10, 12, 14, 16)  # bit depths of scanners


def container(values: np.ndarray) -> int:
    """Returns the smallest bit depth in CONTAINERS that can represent all of the 16-bit integers in `values`."""
    return next(bits for bits in CONTAINERS if int(values.max()) < 1 << bits)


def finite(values: np.ndarray) -> np.ndarray:
    """Returns the finite values of an array. Raises Unreadable if every value is NaN or infinite."""
    good = np.isfinite(values) if values.dtype.kind == "f" else np.True_
    numbers = values if good.all() else values[good]
    if not numbers.size:
        raise Unreadable("each of its values is NaN or infinite")
    return numbers


def to_8bit(deep: np.ndarray, scale: tuple[float, float] | None = None) -> np.ndarray:
    """Converts stored values to uint8. The two values in `scale` become 0 and 255; values outside are clipped.

    By default, integers from 0 to 65535 are scaled from the bit depth given by `container`, so that a 12-bit image in a
    16-bit file is not dark; other values are scaled from their range. Raises Unreadable if no value is finite.
    """
    if scale is None and deep.dtype.kind in "ui" and deep.min() >= 0 and deep.max() < 65536:
        return (deep.astype(np.uint32) >> (container(deep) - 8)).astype(np.uint8)
    if scale is None:
        numbers = finite(deep)
        scale = float(numbers.min()), float(numbers.max())
    low, high = scale
    values = np.nan_to_num(deep.astype(np.float64), nan=low, posinf=high, neginf=low)
    return (np.clip((values - low) / max(high - low, 1e-300), 0, 1) * 255).round().astype(np.uint8)


# A study stores one scale from stored values to 8 bits for all images of a scanner. If an image were scaled by its own
# brightest pixel, a single marker or dead pixel could darken it.

TAILS = (0.1, 99.9)  # percentiles of the values of an image that limit its range, to exclude stray pixels


@dataclass(frozen=True)
class Measured:
    """Value range of an image. Images with the same `scanner` (a device, or else a file format) share one scale."""

    scanner: str
    low: float
    high: float


def measure(path: Path, frame: int, head: Probe, header: Any = None) -> Measured | None:
    """Returns the range of the values of an image, or None if the image needs no scale.

    `header` is the dataset of a DICOM file, or None for other formats. Images of up to 8 bits, colour DICOM images and
    DICOM images with a window need no scale. In other formats, integers from 0 to 65535 get the full range of the bit
    depth given by `container`. Other values get the range between their percentiles TAILS.
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


def _scanner(ds: Any) -> str:
    """Returns a digest of the header elements that identify a device and the type of its images."""
    names = ("Modality", "Manufacturer", "ManufacturerModelName", "DeviceSerialNumber", "StationName", "Units")
    values = [dicom.text(ds, name) for name in (*names, "PhotometricInterpretation", "BitsStored")]
    return "scanner " + hashlib.sha256("\n".join(values).encode()).hexdigest()[:16]

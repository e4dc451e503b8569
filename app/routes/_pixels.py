"""Encodes images of a case for the page: PNG, 16-bit values, and one bit per pixel for masks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import cv2
import numpy as np
from fastapi.responses import Response

from core.studio.ingest import resize
from core.studio.ingest.originals import Source, raw_of
from core.studio.ingest.unreadable import Unreadable

T = TypeVar("T")
KEEP = {"Cache-Control": "private, max-age=3600"}


def picture(image: np.ndarray, head: Mapping[str, str] = KEEP) -> Response:
    """Returns a PNG response with an image, uint8 `(H, W, C)` with C = 3 or 4. Browsers cache it for an hour."""
    order = cv2.COLOR_RGBA2BGRA if image.shape[2] == 4 else cv2.COLOR_RGB2BGR
    data = cv2.imencode(".png", cv2.cvtColor(image, order), [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
    return Response(data, media_type="image/png", headers=head)


def readable(body: Callable[[], T]) -> T:
    """Calls `body` and returns its result. Raises ValueError with advice if the image's file cannot be read anymore."""
    try:
        return body()
    except Unreadable as error:
        raise ValueError(f"The image can no longer be read: {error}. Put its file back where it was.") from None


@functools.lru_cache(maxsize=64)
def png(source: Source, size: int) -> bytes:
    """Returns an image as PNG, scaled down to fit into size x size pixels (0: not scaled)."""
    image = resize.fit(source.image(), size) if size > 0 else source.image()
    grey = bool((image[..., 0] == image[..., 1]).all() and (image[..., 0] == image[..., 2]).all())
    pixels = image[..., 0] if grey else np.ascontiguousarray(image[..., ::-1])
    # Level 1, because compressing a large image further takes longer than sending it.
    is_encoded, data = cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 1])
    if not is_encoded:
        raise Unreadable("it cannot be written as PNG")
    return data.tobytes()


def raw(case: dict) -> tuple[dict, bytes]:
    """Returns headers and codes of an image, little-endian uint16 `(H, W)`. Pixel values are offset + gain * code."""
    codes, offset, gain = _uint16(_grey(readable(lambda: raw_of(case))))
    head = {
        "X-Image-Shape": ",".join(map(str, codes.shape)),
        "X-Image-Offset": repr(offset),
        "X-Image-Gain": repr(gain),
    }
    return head, codes.tobytes()


def bits(pixels: np.ndarray) -> tuple[dict, bytes]:
    """Returns headers with the shape of a mask, `(H, W)`, and the mask with one bit per pixel, highest bit first."""
    return {"X-Image-Shape": ",".join(map(str, pixels.shape))}, np.packbits(pixels).tobytes()


def of_bits(case: Mapping[str, Any], packed: bytes) -> np.ndarray:
    """Unpacks a case's mask to uint8 `(H, W)`. Raises ValueError if the number of bytes does not match the image."""
    shape = case["height"], case["width"]
    expected = -(-shape[0] * shape[1] // 8)
    if len(packed) != expected:
        raise ValueError(f"The mask has {len(packed)} bytes where its image needs {expected}.")
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=shape[0] * shape[1]).reshape(shape)


def region(case: dict, side: int) -> tuple[dict, bytes]:
    """Returns a case's region of interest in the format of `bits`, at most `side` pixels per side (0: no limit)."""
    pixels = readable(lambda: _roi(Source.of(case)))
    long = max(pixels.shape)
    if 0 < side < long:
        shape = (max(1, round(pixels.shape[1] * side / long)), max(1, round(pixels.shape[0] * side / long)))
        share = cv2.resize(pixels.astype(np.float32), shape, interpolation=cv2.INTER_AREA)
        pixels = (share >= 0.5).astype(np.uint8)
    return bits(pixels)


def _grey(values: np.ndarray) -> np.ndarray:
    if values.ndim == 2:
        return values
    return values[..., :3].astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)


def _uint16(values: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Returns codes, offset and gain of values = offset + gain * codes; exact for integers that span up to 65535."""
    lo, hi = float(values.min()), float(values.max())
    if values.dtype == np.uint16:
        return values.astype("<u2"), 0.0, 1.0
    is_integer = bool((values == np.rint(values)).all()) and hi - lo <= 65535
    gain = 1.0 if is_integer else max(hi - lo, 1e-12) / 65535
    return np.rint((values.astype(np.float64) - lo) / gain).astype("<u2"), lo, gain


@functools.lru_cache(maxsize=32)
def _roi(source: Source) -> np.ndarray:
    from core.engine.roi import find_roi

    return find_roi(source.image())

"""Tiles of the worklist's grid: a case's image scaled down, with its heat map blended in as in the viewer."""

from __future__ import annotations

import functools
import zlib
from typing import NamedTuple

import cv2
import numpy as np

from core.engine.roi import find_roi
from core.studio.ingest.originals import Source
from core.studio.ingest.unreadable import Unreadable
from core.studio.review import scales
from core.studio.review.cases import map_of
from core.studio.review.context import RequestContext
from core.studio.runs.readings import unpack_map
from core.studio.runs.records import get_run

SIDES = 32, 512  # pixels: the smallest and the largest tile
QUALITY = 88  # WebP quality
OPACITY = 0.6
ROI_SIDE = 288  # length of the short side for finding the region of interest
# Inferno at ten points, as in the viewer's table (app/widgets/review/js/colours.js).
INFERNO = "000004 1b0c41 4a0c6b 781c6d a52c60 cf4446 ed6925 fb9b06 f7d13d fcffa4"


class Heat(NamedTuple):
    """A heat map to blend into a tile.

    values: float32 (h, w) as bytes, on the run's scale from 0 to 1. mark: an ETag of the map and the scale.
    """

    values: bytes
    shape: tuple[int, int]
    mark: str


def heat_of(context: RequestContext) -> Heat:
    """Returns the heat map of the context's case by its run. Raises ValueError if there is none."""
    store, run = context.store, context.run or ""
    row = map_of(context)
    scale = scales.pixel_scale(store, get_run(store, run))
    values = (unpack_map(row) - scale.lo) / ((scale.hi - scale.lo) or 1)
    mark = f"{zlib.crc32(row['created'].encode()):08x}-{scale.hi!r}"
    return Heat(np.clip(values, 0, 1).astype(np.float32).tobytes(), values.shape, mark)


@functools.cache
def _table() -> np.ndarray:
    """Returns Inferno as float32 (256, 3), RGB."""
    stops = np.array([list(bytes.fromhex(colour)) for colour in INFERNO.split()], np.float32)
    at, last = np.linspace(0, len(stops) - 1, 256), np.arange(len(stops))
    return np.stack([np.interp(at, last, stops[:, c]) for c in range(3)], 1).astype(np.float32)


@functools.lru_cache(maxsize=256)
def webp(source: Source, size: int, heat: Heat | None) -> bytes:
    """Encodes the image within size x size as WebP, with the heat map, if given, blended in."""
    image = source.image()
    tile = _within(image, size / max(image.shape[:2]))
    if heat is not None:
        tile = _under(tile, heat, _within(image, ROI_SIDE / min(image.shape[:2])))
    is_encoded, data = cv2.imencode(".webp", tile[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, QUALITY])
    if not is_encoded:
        raise Unreadable("it cannot be written as WebP")
    return data.tobytes()


def _within(image: np.ndarray, scale: float) -> np.ndarray:
    """Scales uint8 (H, W, 3) down by `scale`; never up."""
    if scale >= 1:
        return image
    shape = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    return cv2.resize(image, shape, interpolation=cv2.INTER_AREA)


def _under(tile: np.ndarray, heat: Heat, image: np.ndarray) -> np.ndarray:
    """Blends the heat map into the tile, low values transparent (as in heat.js). image: to find the region in."""
    width, height = tile.shape[1], tile.shape[0]
    stored = np.frombuffer(heat.values, np.float32).reshape(heat.shape)
    values = cv2.resize(stored, (width, height), interpolation=cv2.INTER_LINEAR)
    inside = cv2.resize(find_roi(image), (width, height), interpolation=cv2.INTER_NEAREST)
    alpha = (OPACITY * np.clip((values - 0.4) / 0.3, 0, 1) * inside)[..., None]
    colours = _table()[np.rint(255 * values).astype(np.uint8)]
    return np.rint(tile * (1 - alpha) + colours * alpha).astype(np.uint8)

"""Lesion masks from boxes and from blobs of a heat map, by LiteMedSAM (core/engine/segment/lite_medsam.py).

Embedding an image takes a second, and segmenting a box a twentieth of a second. A low-priority thread therefore embeds
the images of the next cases in advance, and recent embeddings are cached. An embedding depends on the image alone and
never leaves the server, so it is computed even while results are hidden from the reader.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

import cv2
import numpy as np

from core.engine.calibration.outlines import comparable
from core.engine.roi import find_roi
from core.engine.segment.source import HOW, file
from core.studio.db.store import Store
from core.studio.ingest.originals import Source
from core.studio.ingest.unreadable import Unreadable
from core.studio.runs.readings import outline_level, pixel_scale, stored_map, unpack_map
from core.studio.runs.records import get_run

if TYPE_CHECKING:
    from torch import Tensor

    from core.engine.segment.lite_medsam import BoxModel, Corners

KEPT = 64  # cached embeddings, each 2 MiB
AHEAD = 4  # queued images; one more image drops the oldest
SMALL = 1 / 6  # fraction of the image's side up to which a box is segmented in the visible part of the image
LEAST = 2  # minimum side length of a box in pixels
MOST = 0.3  # maximum fraction of the image that a lesion covers
GRID = 512  # length in pixels of a heat map's longer side when blobs are searched

Window = tuple[int, int, int, int]
Key = tuple[Source, Window | None]


class Embeddings:
    """Cache of the KEPT most recently used embeddings of images or windows of images, each computed on first use."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Tensor] = OrderedDict()
        self._waiting: OrderedDict[Key, None] = OrderedDict()
        self._turn = threading.Lock()  # two embeddings at once would share the processors and take twice as long
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def of(self, key: Key) -> Tensor:
        """Returns the embedding of an image. key: Source, and window (x0, y0, x1, y1) or None for the whole image.

        Raises Unreadable if the file cannot be read, and Missing if the model is not installed.
        """
        with self._turn:
            if key not in self._kept:
                source, window = key
                image = source.image()
                x0, y0, x1, y1 = window or (0, 0, image.shape[1], image.shape[0])
                self._kept[key] = model().embed(np.ascontiguousarray(image[y0:y1, x0:x1]))
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def ahead(self, sources: list[Source]) -> None:
        """Queues images, most urgent first, to be embedded by a background thread; at most AHEAD images wait."""
        with self._changed:
            for source in reversed(sources):
                key = (source, None)
                if key not in self._kept:
                    self._waiting[key] = None
                    self._waiting.move_to_end(key)
            while len(self._waiting) > AHEAD:
                self._waiting.popitem(last=False)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._make, name="embeddings", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            self._changed.notify()

    def close(self, patience: float | None = None) -> bool:
        """Stops the background thread, waits up to `patience` seconds (None: no limit), and returns whether it ended.

        Runs at exit, because torch aborts with a C++ error if the interpreter exits while the thread is computing.
        """
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(patience)
        return self._thread is None or not self._thread.is_alive()

    def _make(self) -> None:
        if sys.platform == "linux":  # only on Linux, the priority applies to this thread alone
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._waiting))
                if self._closed:
                    return
                key, _ = self._waiting.popitem()
            try:
                self.of(key)
            except (Unreadable, ValueError):
                continue  # a request for this image raises the same error


EMBEDDINGS = Embeddings()


def missing() -> str | None:
    """Returns instructions for installing the model for masks from boxes, or None if the model is installed."""
    return None if file() else HOW


@functools.cache
def model() -> BoxModel:
    """Loads and caches LiteMedSAM. Raises Missing if the weights are not installed or are not the expected ones."""
    from core.engine.segment.lite_medsam import load

    return load()


def in_box(case: dict, box: Corners, window: Window | None = None) -> np.ndarray:
    """Segments the lesion in a box and returns a mask of the case's image, bool (H, W).

    box: Corners (x0, y0, x1, y1) in pixels.
    window: Visible part (x0, y0, x1, y1) of the image. A small box inside it is segmented in this part alone.

    Raises ValueError if the box hardly overlaps the image, and Missing if the model is not installed.
    """
    width, height = case["width"], case["height"]
    box = (max(box[0], 0.0), max(box[1], 0.0), min(box[2], float(width)), min(box[3], float(height)))
    if box[2] - box[0] < LEAST or box[3] - box[1] < LEAST:
        raise ValueError("The box hardly overlaps the image. Drag a box around the lesion.")
    if window is not None:
        window = (max(window[0], 0), max(window[1], 0), min(window[2], width), min(window[3], height))
        inside = window[0] <= box[0] and window[1] <= box[1] and box[2] <= window[2] and box[3] <= window[3]
        if not inside or max((box[2] - box[0]) / width, (box[3] - box[1]) / height) > SMALL:
            window = None
    x0, y0, x1, y1 = window or (0, 0, width, height)
    embedding = EMBEDDINGS.of((Source.of(case), window))
    within = (box[0] - x0, box[1] - y0, box[2] - x0, box[3] - y0)
    mask = np.zeros((height, width), bool)
    mask[y0:y1, x0:x1] = model().masks(embedding, [within], (y1 - y0, x1 - x0))[0]
    return mask


def segment_at(
    store: Store,
    case: dict,
    run: str,
    spot: tuple[float, float],
    level: float | None = None,
    window: Window | None = None,
) -> np.ndarray:
    """Segments the lesion at a point of the heat map and returns a mask of the case's image, bool (H, W).

    The mask is limited to the region of interest.

    spot: Point (x, y) in pixels of the image.
    level: Heat-map value above which pixels form blobs. Defaults to the level at which the heat map is outlined.
    window: Visible part of the image, as for `in_box`.

    Raises ValueError if there is no heat map, if the heat map has no blob at the point or if the mask covers more than
    MOST of the image, and Missing if the model is not installed.
    """
    from core.engine.segment.region import boxes, chosen

    row = stored_map(store, run, case["id"])
    scale = pixel_scale(get_run(store, run))
    cells, shape = unpack_map(row), (case["height"], case["width"])
    step = min(1.0, GRID / max(shape))  # a finer grid would not improve the box of a blob
    size = max(1, round(shape[1] * step)), max(1, round(shape[0] * step))
    heat = cv2.resize(cells, size, interpolation=cv2.INTER_LINEAR)
    source = Source.of(case)
    roi = find_roi(source.image()) > 0
    inside = cv2.resize(roi.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
    heat[~(comparable(heat.shape, scale) & inside)] = -np.inf
    zoom = shape[1] / size[0], shape[0] / size[1]
    at = outline_level(row, scale) if level is None else level
    corners = boxes(heat, scale.lo, at, (spot[0] / zoom[0], spot[1] / zoom[1]))
    wide = [(x0 * zoom[0], y0 * zoom[1], x1 * zoom[0], y1 * zoom[1]) for x0, y0, x1, y1 in corners]
    mask = in_box(case, chosen(model(), EMBEDDINGS.of((source, None)), wide, shape), window) & roi
    if mask.mean() > MOST:
        raise ValueError(
            f"The blob of the heat map covers {100 * mask.mean():.0f} % of the image, too much for a lesion: drag "
            "a box around the lesion instead ( / )."
        )
    return mask

"""Masks from boxes and from blobs of the heat map, by LiteMedSAM (core/engine/segment/lite_medsam.py).

The embedding of an image takes a second, a box only a twentieth. A low-priority thread therefore computes the
embeddings of the next cases in advance, and the last ones are cached. They depend on the image alone and never leave
the server: each request first checks whether its reader may see results.
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

KEPT = 64  # embeddings of 2 MiB
AHEAD = 4  # images that wait for their embedding; one more drops the oldest
SMALL = 1 / 6  # of the image's side: a smaller box is read in the visible part of the image, if that is smaller
LEAST = 2  # pixels of a box's side
MOST = 0.3  # of the image: a blob that covers more is not a lesion
GRID = 512  # the longer side of a heat map when its blobs are found

Window = tuple[int, int, int, int]
Key = tuple[Source, Window | None]


class Embeddings:
    """A cache of the KEPT most recently used embeddings of images or of windows of them, each computed on first use."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Tensor] = OrderedDict()
        self._waiting: OrderedDict[Key, None] = OrderedDict()
        self._turn = threading.Lock()  # one at a time: two would share the processors and take twice as long
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def of(self, key: Key) -> Tensor:
        """Returns the embedding of an image or window, computing it if needed. Raises Unreadable if the file cannot be
        read, and Missing if the model is not installed."""
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
        """Queues images, most urgent first, whose embeddings a background thread computes; at most AHEAD wait."""
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
        """Stops the background thread, waiting up to `patience` seconds (None: any time); returns whether it ended.
        If the interpreter exits while a thread is inside torch, the C++ library aborts it with an error."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(patience)
        return self._thread is None or not self._thread.is_alive()

    def _make(self) -> None:
        if sys.platform == "linux":  # there, it affects only this thread and those it starts
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
                continue  # the request for this image reports it


EMBEDDINGS = Embeddings()


def missing() -> str | None:
    """Returns how to install the model that draws masks from boxes; None if it is installed."""
    return None if file() else HOW


@functools.cache
def model() -> BoxModel:
    """Loads LiteMedSAM, once. Raises Missing if the weights are not installed or are not the expected ones."""
    from core.engine.segment.lite_medsam import load

    return load()


def in_box(case: dict, box: Corners, window: Window | None = None) -> np.ndarray:
    """Segments the lesion in a box (x0, y0, x1, y1) in pixels; returns bool (H, W) of the case's image.

    window: the visible part of the image, None for all of it; a small box is segmented within it. Raises ValueError if
    the box hardly overlaps the image, and Missing if the model is not installed.
    """
    width, height = case["width"], case["height"]
    box = (max(box[0], 0.0), max(box[1], 0.0), min(box[2], float(width)), min(box[3], float(height)))
    if box[2] - box[0] < LEAST or box[3] - box[1] < LEAST:
        raise ValueError("The box holds nothing of the image: drag it round the lesion.")
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


def under(
    store: Store,
    case: dict,
    run: str,
    spot: tuple[float, float],
    level: float | None = None,
    window: Window | None = None,
) -> np.ndarray:
    """Segments the lesion that the run's heat map shows at `spot` (x, y); returns bool (H, W) of the case's image.

    The mask stays within the region of interest. level: the outline level on screen; None for the map's stored level.
    Raises ValueError if the map shows nothing there or does not exist, or if the mask covers more than MOST of the
    image, and Missing if the model is not installed.
    """
    from core.engine.segment.region import boxes, chosen

    row = stored_map(store, run, case["id"])
    scale = pixel_scale(get_run(store, run))
    cells, shape = unpack_map(row), (case["height"], case["width"])
    step = min(1.0, GRID / max(shape))  # a blob needs no finer box
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
            f"What the heat map shows there covers {100 * mask.mean():.0f} % of the image, too much for a lesion: drag "
            "a box round it instead ( / )."
        )
    return mask

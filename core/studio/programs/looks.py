"""Scores images that do not belong to a study. Neither the images nor their scores are stored."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from core.engine.calibration.percentiles import Calibration
from core.studio.db.store import Store
from core.studio.ingest.decode import SUFFIXES, read_image
from core.studio.ingest.resize import prepare
from core.studio.ingest.unreadable import Unreadable
from core.studio.runs import records as runs
from core.studio.runs.operating import in_effect, level_of
from core.studio.runs.readings import size_of
from core.studio.runs.scoring import load_detector, look

BATCH = 32
LOADED = 2  # number of detectors that stay in memory
Looked = tuple[np.ndarray, dict[str, np.ndarray]]
Image = np.ndarray | str | os.PathLike[str]  # uint8 (H, W, 3) or (H, W), or a file


def listed(images: Any, name: str = "images", least: int = 0) -> list[Image]:
    """Converts an array, a file, a folder, or a sequence of arrays and files to a list of images.

    An array (H, W, 3) or (H, W) is one image; an array (N, H, W, 3) contains N images. `name` is the name of the
    argument in error messages. Raises ValueError for other values, for a folder without images, and for a sequence of
    fewer than `least` images.
    """
    if isinstance(images, (str, os.PathLike)):
        files = sorted(f for f in Path(images).rglob("*") if f.suffix.lower() in SUFFIXES)
        if Path(images).is_dir() and not files:
            raise ValueError(f"{name}: the folder {images} contains no image that can be read")
        return [*files] or [images]
    if isinstance(images, np.ndarray) and (images.ndim == 2 or (images.ndim == 3 and images.shape[2] == 3)):
        return [images]
    if not hasattr(images, "__len__") or (isinstance(images, np.ndarray) and images.ndim not in (3, 4)):
        kind = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise ValueError(f"{name} must be arrays uint8 (H, W, 3) or (H, W), files, or a folder, not {kind}")
    if len(images) < least:
        raise ValueError(f"{name}: {least} or more images are needed, but there are {len(images)}")
    return list(images)


def opened(image: Image) -> np.ndarray:
    """Loads an image as uint8 (H, W, 3). Raises ValueError for an invalid array, Unreadable for an unreadable file."""
    if isinstance(image, (str, os.PathLike)):
        try:
            return read_image(image)
        except Unreadable as error:
            raise Unreadable(f"{os.fspath(image)} cannot be read: {error}") from None
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise ValueError(f"an image must be uint8 (H, W, 3) or (H, W), or a file, not {pixels.dtype} {pixels.shape}")
    if not pixels.size:
        raise ValueError(f"an image must have at least one pixel; this one has the shape {pixels.shape}")
    return np.repeat(pixels[..., None], 3, 2) if pixels.ndim == 2 else pixels


def looked(store: Store, detector: Any, run: str, images: Sequence[Image]) -> Iterator[Looked]:
    """Scores images with a run's detector, in batches of up to BATCH images.

    Yields the heat maps of each batch, float32 (n, h, w), and its scores {"plain": of the whole images, "roi": inside
    the region of interest}, each float64 (n,).
    """
    size = size_of(store, runs.get_run(store, run))
    for start in range(0, len(images), BATCH):
        pairs = [prepare(opened(image), size) for image in images[start : start + BATCH]]
        prepared, roi = (np.stack(column) for column in zip(*pairs, strict=True))
        yield look(detector, prepared, roi)[:2]


def scored(store: Store, run: str, scores: Sequence[np.ndarray]) -> pd.DataFrame:
    """Builds a table of scores that were computed inside the region of interest.

    If the run has scored its study, the table also has the columns threshold (score above which the current operating
    point flags an image), percentile (among the held-out normal images) and flagged.
    """
    values = np.concatenate([*scores, np.zeros(0)])
    frame = pd.DataFrame({"score": values})
    stored = runs.get_run(store, run)["summary"].get("calibration")
    if stored:
        calibration, point = Calibration.from_dict(stored["roi"]), in_effect(store, run)[run]
        frame["threshold"] = level_of(store, run, point)
        frame["percentile"] = calibration.percentile(values)
        frame["flagged"] = point.flagged(values, frame["percentile"].to_numpy())
    return frame


class Looks:
    """Scorer of single images for a server: one image at a time, with the last LOADED detectors kept in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._detector = functools.lru_cache(LOADED)(lambda run: load_detector(store, run, "auto"))
        self._turn = threading.Lock()

    def at(self, run: str, image: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
        """Scores an image uint8 (H, W, 3) with the detector of run `run`.

        Returns {"score", "threshold", "percentile", "flagged"} and the heat map, float32 (h, w). Until the run has
        scored its study, "threshold", "percentile" and "flagged" are None. Raises ValueError if the run is unknown,
        unfinished or damaged.
        """
        runs.get_run(self._store, run)
        with self._turn:
            maps, scores = next(looked(self._store, self._detector(run), run, [image]))
        [row] = scored(self._store, run, [scores["roi"]]).to_dict("records")  # converts NumPy's types to Python's
        return {"threshold": None, "percentile": None, "flagged": None, **row}, maps[0]

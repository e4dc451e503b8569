"""Reads the image files of cases, and checks that the files have not changed since the import."""

from __future__ import annotations

import functools
import json
import os
from typing import Any, NamedTuple

import numpy as np

from core.engine.files import file_sha256
from core.studio.db.store import Row
from core.studio.ingest.decode import read_image, read_raw
from core.studio.ingest.unreadable import Unreadable


class Replaced(Unreadable):
    """Raised if the content of a file has changed since the import."""


def check(path: str | os.PathLike[str], sha256: str | None) -> None:
    """Raises Replaced if a file exists and its SHA-256 is not `sha256`. If `sha256` is None, nothing is checked."""
    try:
        status = os.stat(path)
        digest = _digest(os.fspath(path), status.st_mtime_ns, status.st_size, status.st_ino) if sha256 else None
    except OSError:
        return
    if digest != sha256:
        raise Replaced("the file has changed since the import")


class Source(NamedTuple):
    """File and frame of a case's image. It can serve as a cache key for results that are computed from the image."""

    path: str
    frame: int
    sha256: str | None
    scale: str | None

    @classmethod
    def of(cls, case: Row) -> Source:
        """Returns the source of a case from the columns path, frame, sha256 and scale of its row."""
        return cls(case["path"], case["frame"], case["sha256"], case["scale"])

    def image(self) -> np.ndarray:
        """Reads the image as `image_of` does. Raises Replaced or Unreadable."""
        return image_of(self._asdict())


def image_of(case: Row) -> np.ndarray:
    """Reads a case's image as `shown` does. Raises Replaced if the file has changed, or Unreadable if it is damaged."""
    check(case["path"], case["sha256"])
    return shown(case)


def shown(case: Row) -> np.ndarray:
    """Reads a case's image, uint8 `(H, W, 3)`, with its scanner's scale, without checking if the file has changed."""
    scale = json.loads(case["scale"]) if case["scale"] else None  # None for images of 8 bits
    return read_image(case["path"], case["frame"], scale and (float(scale[0]), float(scale[1])))


def raw_of(case: Row) -> np.ndarray[Any, Any]:
    """Reads a case's unscaled values as `decode.read_raw` does. Raises Replaced or Unreadable as `image_of` does."""
    check(case["path"], case["sha256"])
    return read_raw(case["path"], case["frame"])


@functools.lru_cache(1 << 16)
def _digest(path: str, changed: int, size: int, number: int) -> str:
    return file_sha256(path)

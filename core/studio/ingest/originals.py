"""The image files of cases: whether one is still the file that was imported."""

from __future__ import annotations

import functools
import os
from typing import Any, NamedTuple

import cv2
import numpy as np

from core.engine.files import file_sha256
from core.studio.db.store import Row
from core.studio.ingest import scale
from core.studio.ingest.decode import read_image, read_raw
from core.studio.ingest.unreadable import Unreadable


class Replaced(Unreadable):
    """A file whose content is another than at the import."""


def check(path: str | os.PathLike[str], sha256: str | None) -> None:
    """Raises Replaced unless the file is the one with that hash. A file that is gone is left to its reader."""
    try:
        status = os.stat(path)
        digest = _digest(os.fspath(path), status.st_mtime_ns, status.st_size, status.st_ino) if sha256 else None
    except OSError:
        return
    if digest != sha256:
        raise Replaced("another file has taken its place since the import")


class Source(NamedTuple):
    """What a case's image is read from, as a key of what is made of it."""

    path: str
    frame: int
    sha256: str | None
    scale: str | None
    # Of a session with planted lesions its number, x, y and a PNG of what stands in place of the image there, empty for
    # nothing: what is kept of an image as it is otherwise seen would answer sooner than one with a lesion.
    patch: tuple[int, int, int, bytes] | None = None

    @classmethod
    def of(cls, case: Row) -> Source:
        """Of a case's row, with the lesion that is planted in it for whoever asks (core/studio/review/planted.py)."""
        return cls(case["path"], case["frame"], case["sha256"], case["scale"], case.get("patch"))

    def image(self) -> np.ndarray:
        """`image_of` the case."""
        return image_of(self._asdict())


def image_of(case: Row) -> np.ndarray:
    """`shown` of a case's row (path, frame, sha256, scale). Raises Unreadable, or Replaced."""
    check(case["path"], case["sha256"])
    return shown(case)


def shown(case: Row) -> np.ndarray:
    """uint8 (H, W, 3) of a case's row (path, frame, scale): `decode.read_image` by the scale of its scanner."""
    image = read_image(case["path"], case["frame"], scale.of_case(case))
    _, x, y, png = case.get("patch") or (0, 0, 0, b"")
    if not png:
        return image
    patch = np.asarray(cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR))[..., ::-1]
    image = image.copy()
    image[y : y + patch.shape[0], x : x + patch.shape[1]] = patch
    return image


def raw_of(case: Row) -> np.ndarray[Any, Any]:
    """`decode.read_raw` of a case's row. Raises Unreadable, or Replaced."""
    check(case["path"], case["sha256"])
    return read_raw(case["path"], case["frame"])


@functools.lru_cache(1 << 16)
def _digest(path: str, changed: int, size: int, number: int) -> str:
    return file_sha256(path)

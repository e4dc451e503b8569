"""The image files of cases: whether one is still the file that was imported."""

from __future__ import annotations

import functools
import os
from typing import Any, NamedTuple

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

    @classmethod
    def of(cls, case: Row) -> Source:
        """Of a case's row."""
        return cls(*(case[name] for name in cls._fields))

    def image(self) -> np.ndarray:
        """`image_of` the case."""
        return image_of(self._asdict())


def image_of(case: Row) -> np.ndarray:
    """`shown` of a case's row (path, frame, sha256, scale). Raises Unreadable, or Replaced."""
    check(case["path"], case["sha256"])
    return shown(case)


def shown(case: Row) -> np.ndarray:
    """uint8 (H, W, 3) of a case's row (path, frame, scale): `decode.read_image` by the scale of its scanner."""
    return read_image(case["path"], case["frame"], scale.of_case(case))


def raw_of(case: Row) -> np.ndarray[Any, Any]:
    """`decode.read_raw` of a case's row. Raises Unreadable, or Replaced."""
    check(case["path"], case["sha256"])
    return read_raw(case["path"], case["frame"])


@functools.lru_cache(1 << 16)
def _digest(path: str, changed: int, size: int, number: int) -> str:
    return file_sha256(path)

"""A folder of normal images, nothing else: all are for training, a part of them held out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from core.studio.ingest.layouts import Entry, files_under

TITLE = "a folder of normal images"


def fits(folder: Path) -> bool:
    return folder.is_dir()


def entries(folder: Path) -> Iterator[Entry]:
    for path in files_under(folder):
        yield Entry(path)

"""Copies of imported files in the home: all of them, or none if the import fails."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from pathlib import Path
from types import TracebackType

from core.studio.db import leftovers
from core.studio.ingest.reader import Found


class Copies(contextlib.AbstractContextManager["Copies"]):
    """The copies of one import: `with Copies() as copies: copies.add(...)`.

    They are removed again if the block fails, as by a full disk.
    """

    def __init__(self) -> None:
        self._new: list[Path] = []
        self._held: set[Path] = set()

    def add(self, files: list[Found], root: Path, target: Path) -> None:
        """Copies the files to `target`, laid out as below `root`; the entries then name the copies."""
        moved: dict[Path, Path] = {}
        for f in files:
            source = f.entry.path
            if source not in moved:
                inside = (
                    source.relative_to(root) if source.is_relative_to(root) else Path("elsewhere", *source.parts[1:])
                )
                moved[source] = self._copy(source, target / inside)
            f.entry = dataclasses.replace(f.entry, path=moved[source])

    def _copy(self, source: Path, place: Path) -> Path:
        """The whole file or none: a half-made copy never has the file's name."""
        new = [folder for folder in (*reversed(place.parents), place) if not folder.exists()]
        self._new += new
        place.parent.mkdir(parents=True, exist_ok=True)
        if new[0] != place:
            leftovers.hold(new[0])
            self._held.add(new[0])
        partial = place.with_name(f".{os.getpid()}.partial")
        try:
            shutil.copy2(source, partial)
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
        return place

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in reversed(self._new if kind else []):
            with contextlib.suppress(OSError):  # a folder in which something else was put meanwhile stays
                path.rmdir() if path.is_dir() else path.unlink()
        for path in self._held:
            leftovers.let_go(path)

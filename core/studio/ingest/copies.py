"""Copies imported files into the home, and removes the copies if the import fails."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

from core.engine import files
from core.studio.db import leftovers
from core.studio.db.store import Store
from core.studio.ingest.reader import Found
from core.studio.ingest.records import demand_free_name

ADDED = "added"  # subfolder of a study's folder for files that were added later, by content


class Copies:
    """Files and folders that an import has created by copying (see `copying`)."""

    def __init__(self) -> None:
        self.new: list[Path] = []  # folders and files, in the order in which they were made

    def add(self, frames: list[Found], root: Path, target: Path) -> None:
        """Copies the files of frames to `target`, keeping their folders below `root`, and updates the frames' paths.

        Files that an interrupted import left behind are replaced.
        """
        moved: dict[Path, Path] = {}
        for frame in frames:
            source = frame.entry.path
            if source not in moved:
                inside = (
                    source.relative_to(root) if source.is_relative_to(root) else Path("elsewhere", *source.parts[1:])
                )
                moved[source] = copy = target / inside
                self.new += [path for path in (*reversed(copy.parents), copy) if not path.exists()]
                files.copy(source, copy)
            frame.entry = dataclasses.replace(frame.entry, path=moved[source])


@contextlib.contextmanager
def copying(store: Store, study: str, source: Path | None = None) -> Iterator[Copies]:
    """Context manager that locks the folder of a study's copies, and removes new copies if the block raises an error.

    `source` is the folder from which a new study is imported, or None for an existing study. For a new study, files
    left by an interrupted import are removed first. Raises ValueError if the name of the new study is in use.
    """
    folder = store.home.files / study
    with files.locked(folder):
        if source is not None:
            demand_free_name(store, study)  # another import may have taken the name
            if not source.is_relative_to(folder) and not leftovers.is_held(folder):  # by a bundle import
                shutil.rmtree(folder, ignore_errors=True)
        copies = Copies()
        try:
            yield copies
        except BaseException:
            for path in reversed(copies.new):
                with contextlib.suppress(OSError):  # a folder that received other files meanwhile stays
                    path.rmdir() if path.is_dir() else path.unlink()
            raise


def sweep(store: Store) -> list[str]:
    """Removes copies of added files that belong to no case because an import was interrupted; returns their names."""
    gone = []
    for added in store.home.files.glob(f"*/{ADDED}"):
        with contextlib.suppress(files.Busy), files.locked(added.parent, wait=False):
            study = added.parent.name
            cases = {case["path"] for case in store.query("SELECT path FROM cases WHERE study = ?", [study])}
            for path in sorted(added.rglob("*"), reverse=True):  # a folder comes after its content
                with contextlib.suppress(OSError):
                    if path.is_dir():
                        path.rmdir()  # fails unless it is empty
                    elif str(path) not in cases:
                        path.unlink()
                        gone.append(path.name)
    return gone

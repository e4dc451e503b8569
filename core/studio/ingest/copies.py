"""Copies of imported files in the home: all of them, or none if the import fails."""

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

ADDED = "added"  # inside a study's folder: what was added to it later, by content


class Copies:
    """The copies of one import: what `copying` yields."""

    def __init__(self) -> None:
        self.new: list[Path] = []  # folders and files, in the order in which they were made

    def add(self, frames: list[Found], root: Path, target: Path) -> None:
        """Copies the files to `target`, laid out as below `root`; the entries then name the copies.

        What lies there already, as an import that was killed left it, is replaced.
        """
        moved: dict[Path, Path] = {}
        for f in frames:
            source = f.entry.path
            if source not in moved:
                inside = (
                    source.relative_to(root) if source.is_relative_to(root) else Path("elsewhere", *source.parts[1:])
                )
                moved[source] = place = target / inside
                self.new += [path for path in (*reversed(place.parents), place) if not path.exists()]
                files.copy(source, place)
            f.entry = dataclasses.replace(f.entry, path=moved[source])


@contextlib.contextmanager
def copying(store: Store, study: str, source: Path | None = None) -> Iterator[Copies]:
    """Has the folder of a study's copies to itself: imports into one study come one after the other.

    What was copied is removed again if the block fails, as by a full disk. source: the folder that a new study is made
    of; what an import that was killed left in the study's folder is removed first. Raises ValueError if the name of a
    new study is in use.
    """
    folder = store.home.files / study
    with files.locked(folder):
        if source is not None:
            demand_free_name(store, study)  # another import of the name may have come first
            if not source.is_relative_to(folder) and not leftovers.is_held(folder):  # as by a bundle that comes in
                shutil.rmtree(folder, ignore_errors=True)
        copies = Copies()
        try:
            yield copies
        except BaseException:
            for path in reversed(copies.new):
                with contextlib.suppress(OSError):  # a folder in which something else was put meanwhile stays
                    path.rmdir() if path.is_dir() else path.unlink()
            raise


def sweep(store: Store) -> list[str]:
    """Removes copies that were added to a study and that no case has, as an import that was killed leaves them."""
    gone = []
    for added in store.home.files.glob(f"*/{ADDED}"):
        with contextlib.suppress(files.Busy), files.locked(added.parent, wait=False):
            study = added.parent.name
            cases = {case["path"] for case in store.query("SELECT path FROM cases WHERE study = ?", [study])}
            for path in sorted(added.rglob("*"), reverse=True):  # a folder comes after what it holds
                with contextlib.suppress(OSError):
                    if path.is_dir():
                        path.rmdir()  # fails unless it is empty
                    elif str(path) not in cases:
                        path.unlink()
                        gone.append(path.name)
    return gone

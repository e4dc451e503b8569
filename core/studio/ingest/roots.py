"""Folders of this machine that administrators may import from when people sign in; readers name no folder at all.

What a folder, a CSV or a link in it names must lie in such a folder too, links followed: see `Within`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from core.studio.db import audit
from core.studio.db.store import Store, now


class NotNamed(ValueError):
    """A path outside every folder that was named; the message says how to name one."""


class Within:
    """The folders in which files may lie, links followed; `Within(None)` is the whole machine, for its owner."""

    def __init__(self, folders: Iterable[str | os.PathLike[str]] | None) -> None:
        self.folders = None if folders is None else [Path(os.path.realpath(folder)) for folder in folders]
        self._real: dict[Path, Path] = {}  # of folders that hold files; one object serves one import

    def holds(self, path: Path) -> bool:
        """Returns whether a path, links followed, lies in one of the folders. It need not exist."""
        if self.folders is None:
            return True
        try:
            place = self._resolved(path)
        except (OSError, ValueError, RuntimeError):
            return False
        return any(place.is_relative_to(folder) for folder in self.folders)

    def _resolved(self, path: Path) -> Path:
        if path.name == ".." or path.is_symlink():
            return Path(os.path.realpath(path))
        parent = path.parent
        if parent not in self._real:
            self._real[parent] = Path(os.path.realpath(parent))
        return self._real[parent] / path.name

    def refused(self, path: Path) -> Path:
        """Returns what to name of a refused path: the link inside that leads out, else the path as it was given.

        Nothing is said of what lies outside, nor whether it is there.
        """
        for place in [*reversed(path.parents), path]:
            if self.holds(place.parent) and place.is_symlink() and not self.holds(place):
                return place
        return path


def allowed(store: Store, single_user: bool) -> Within:
    """Returns where files may be imported from: the named folders, or anywhere if the studio is its owner's alone."""
    return Within(None if single_user else named(store))


def named(store: Store) -> list[str]:
    """Lists the folders that may be imported from, sorted."""
    return [row["folder"] for row in store.query("SELECT folder FROM roots ORDER BY folder")]


def name(store: Store, folder: str | os.PathLike[str], by: str) -> str:
    """Adds a folder; returns its full path, links followed. Raises ValueError if there is none."""
    place = Path(folder).expanduser().resolve()
    if not place.is_dir():
        raise ValueError(f"there is no folder {place}")
    if len(place.parts) == 1:
        raise ValueError("the whole machine cannot be named: choose the folder that the images lie in")
    with store.write() as db:
        added = db.execute("INSERT OR IGNORE INTO roots VALUES (?, ?, ?)", [str(place), now(), by])
        if added.rowcount:
            audit.record(store, by, "root", after=str(place))
    return str(place)


def forget(store: Store, folder: str | os.PathLike[str], by: str) -> None:
    """Removes a folder from the list. Raises ValueError if it is not on it."""
    place = str(Path(folder).expanduser().resolve())
    with store.write() as db:
        if not db.execute("DELETE FROM roots WHERE folder = ?", [place]).rowcount:
            raise ValueError(f"{place} is not named; there are: {', '.join(named(store)) or 'none'}")
        audit.record(store, by, "root", before=place)


def demand(store: Store, path: str | os.PathLike[str], single_user: bool) -> None:
    """Raises NotNamed unless the path, links followed, lies in a named folder, or the studio is its owner's alone."""
    if single_user:
        return
    text = os.fspath(path).strip()
    try:
        place = Path(text).expanduser().absolute() if text and "\0" not in text else None
    except (OSError, RuntimeError):
        place = None
    if place is None or not Within(named(store)).holds(place):
        raise NotNamed(
            f"{text!r} lies in no folder that may be imported from: on the machine itself, "
            "`roots add FOLDER` names one; or drop the files on the page"
        )

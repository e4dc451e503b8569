"""Manages the folders from which administrators may import in multi-user mode. Other users cannot import from folders.

Files to which a table or a link refers must also lie in one of these folders, with links resolved (see `Within`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from core.studio.db import audit
from core.studio.db.store import Store, now


class NotNamed(ValueError):
    """Raised if a path is outside the folders from which imports are allowed. The message says how to allow one."""


class Within:
    """Folders in which files must lie, with links resolved. `Within(None)` (single-user mode) allows all folders."""

    def __init__(self, folders: Iterable[str | os.PathLike[str]] | None) -> None:
        self.folders = None if folders is None else [Path(os.path.realpath(folder)) for folder in folders]
        self._real: dict[Path, Path] = {}  # cache of resolved parent folders; one object serves one import

    def holds(self, path: Path) -> bool:
        """Returns whether a path, with links resolved, lies in one of the folders. The file need not exist."""
        if self.folders is None:
            return True
        try:
            resolved = self._resolved(path)
        except (OSError, ValueError, RuntimeError):
            return False
        return any(resolved.is_relative_to(folder) for folder in self.folders)

    def _resolved(self, path: Path) -> Path:
        if path.name == ".." or path.is_symlink():
            return Path(os.path.realpath(path))
        parent = path.parent
        if parent not in self._real:
            self._real[parent] = Path(os.path.realpath(parent))
        return self._real[parent] / path.name

    def refused(self, path: Path) -> Path:
        """Returns the path that an error may name: a link that leads out of an allowed folder, or else the given path.

        The path reveals nothing about files outside the folders, not even whether they exist.
        """
        for ancestor in [*reversed(path.parents), path]:
            if self.holds(ancestor.parent) and ancestor.is_symlink() and not self.holds(ancestor):
                return ancestor
        return path


def allowed(store: Store, single_user: bool) -> Within:
    """Returns the folders from which imports are allowed. In single-user mode, these are all folders."""
    return Within(None if single_user else named(store))


def named(store: Store) -> list[str]:
    """Returns the folders from which administrators may import, sorted by path."""
    return [row["folder"] for row in store.query("SELECT folder FROM roots ORDER BY folder")]


def allow_folder(store: Store, folder: str | os.PathLike[str], by: str) -> str:
    """Allows imports from a folder; returns its real path. Raises ValueError if it is missing or is the root folder."""
    resolved = Path(folder).expanduser().resolve()
    if not resolved.is_dir():
        raise ValueError(f"the folder {resolved} does not exist")
    if len(resolved.parts) == 1:
        raise ValueError("the root folder cannot be allowed; choose the folder with the images")
    with store.write() as db:
        added = db.execute("INSERT OR IGNORE INTO roots VALUES (?, ?, ?)", [str(resolved), now(), by])
        if added.rowcount:
            audit.record(store, by, "root", after=str(resolved))
    return str(resolved)


def forget(store: Store, folder: str | os.PathLike[str], by: str) -> None:
    """Revokes the permission to import from a folder. Raises ValueError if the folder is not allowed."""
    resolved = str(Path(folder).expanduser().resolve())
    with store.write() as db:
        if not db.execute("DELETE FROM roots WHERE folder = ?", [resolved]).rowcount:
            raise ValueError(f"{resolved} is not an allowed folder; choose from: {', '.join(named(store)) or 'none'}")
        audit.record(store, by, "root", before=resolved)


def demand(store: Store, path: str | os.PathLike[str], single_user: bool) -> None:
    """Raises NotNamed if a path is outside the allowed folders. In single-user mode, all paths are allowed."""
    if single_user:
        return
    text = os.fspath(path).strip()
    try:
        target = Path(text).expanduser().absolute() if text and "\0" not in text else None
    except (OSError, RuntimeError):
        target = None
    if target is None or not Within(named(store)).holds(target):
        raise NotNamed(
            f"{text!r} is outside the folders from which imports are allowed; run `roots add FOLDER` on the server "
            "to allow one, or drop the files on the page"
        )

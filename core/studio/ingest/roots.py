"""Folders of this machine that administrators may import from when people sign in; readers name no folder at all."""

from __future__ import annotations

import os
from pathlib import Path

from core.studio.db import audit
from core.studio.db.store import Store, now


class NotNamed(ValueError):
    """A path outside every folder that was named; the message says how to name one."""


def named(store: Store) -> list[str]:
    """The folders, sorted."""
    return [row["folder"] for row in store.query("SELECT folder FROM roots ORDER BY folder")]


def name(store: Store, folder: str | os.PathLike[str], by: str) -> str:
    """Add a folder; returns its full path, links followed. Raises ValueError if there is none."""
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
    """Take a folder from the list. Raises ValueError if it is not on it."""
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
        place = Path(text).expanduser().resolve() if text and "\0" not in text else None
    except (OSError, RuntimeError):
        place = None
    if place is None or not any(place.is_relative_to(root) for root in named(store)):
        raise NotNamed(
            f"{text!r} lies in no folder that may be imported from: on the machine itself, "
            "`roots add FOLDER` names one; or drop the files on the page"
        )

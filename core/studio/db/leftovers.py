"""Removes leftovers of killed processes: image copies without a study, and incomplete arrays, backups and bundles.

A process locks each temporary file or folder that it creates (`hold`, `begin`). The system releases the lock when the
process ends, even if it is killed. Files that are neither locked nor referenced are leftovers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from core.engine import files
from core.studio.db.store import Store

OLD = 3600.0  # default age in seconds in `sweep`
MADE = 2.0  # seconds after which a process has surely locked a file that it created
_HELD: dict[Path, int] = {}  # file descriptors that hold the locks


def hold(path: Path) -> None:
    """Locks a file or folder until `let_go` is called or this process ends. The lock survives renaming."""
    descriptor = os.open(path, os.O_RDONLY)
    with contextlib.suppress(OSError):  # on a file system without locks, `sweep` relies on the age alone
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    before = _HELD.pop(path, None)
    _HELD[path] = descriptor
    if before is not None:
        os.close(before)


def let_go(path: Path) -> None:
    """Unlocks a file or folder that this process has locked; does nothing otherwise."""
    descriptor = _HELD.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


def begin(parent: Path, prefix: str = "tmp") -> Path:
    """Creates a temporary folder in `parent`, locks it until `discard` is called, and returns its path."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    hold(folder)
    return folder


def discard(folder: Path) -> None:
    """Removes and unlocks a folder that `begin` created."""
    shutil.rmtree(folder, ignore_errors=True)
    let_go(folder)


@contextlib.contextmanager
def folder(parent: Path, prefix: str = "tmp") -> Iterator[Path]:
    """Yields a new temporary folder in `parent`, which is locked during the block and removed afterwards."""
    work = begin(parent, prefix)
    try:
        yield work
    finally:
        discard(work)


def is_held(path: Path) -> bool:
    """Returns whether any process holds a lock on a file or folder."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


def sweep(store: Store, older: float = OLD) -> list[str]:
    """Removes leftovers, which are neither referenced nor locked; returns the names of the removed files and folders.

    Uploads must be unchanged for 24 * `older` seconds, and other leftovers for min(`older`, MADE) seconds.
    """
    home = store.home
    removed = files.sweep(home.path)
    studies = {row["id"] for row in store.query("SELECT id FROM studies")}
    copies = [path for path in home.files.iterdir() if path.name not in studies and not path.name.startswith(".")]
    work = [*home.cache.glob("tmp*"), *home.path.glob("bundle-*")]
    for paths, age in (([*copies, *work], min(MADE, older)), (home.cache.glob("dropped/*"), 24 * older)):
        for path in paths:  # uploads stay longer, because the page of an upload may be open all day
            # Times may be in the future if the clock was set back.
            if max(0.0, time.time() - _last_written(path)) < age or is_held(path):
                continue
            with contextlib.suppress(files.Busy), files.locked(path, wait=False):  # an import may be using it
                if path in copies and store.one("SELECT 1 FROM studies WHERE id = ?", [path.name]):
                    continue  # the study has just been imported
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
                removed.append(path.name)
    return removed


def _last_written(path: Path) -> float:
    times = []
    for inside in (path, *path.rglob("*")):
        with contextlib.suppress(OSError):  # the file has just been removed
            times.append(inside.stat().st_mtime)
    return max(times, default=0.0)

"""What a process that was killed leaves: copies without a study, half-made arrays, backups and bundles.

Whoever makes a file or folder that is not to stay holds it (`hold`, `begin`): the system lets go of it when the process
ends, however it ends. What nobody holds and nothing refers to is a leftover.
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

OLD = 3600.0  # seconds: what is made without being held has been written to since
MADE = 2.0  # seconds in which a process has long since taken hold of what it made
_HELD: dict[Path, int] = {}  # file descriptors, each with a lock that other processes see


def hold(path: Path) -> None:
    """Holds a file or folder until `let_go`, or until this process ends. It may be renamed meanwhile."""
    descriptor = os.open(path, os.O_RDONLY)
    with contextlib.suppress(OSError):  # a file system without locks: its age says whether it is a leftover
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    before = _HELD.pop(path, None)
    _HELD[path] = descriptor
    if before is not None:
        os.close(before)


def let_go(path: Path) -> None:
    """Stops holding a file or folder; one that is not held is left as it is."""
    descriptor = _HELD.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


@contextlib.contextmanager
def holding(path: Path) -> Iterator[None]:
    """Holds a file or folder while the block runs."""
    hold(path)
    try:
        yield
    finally:
        let_go(path)


def begin(parent: Path, prefix: str = "tmp") -> Path:
    """Makes a new folder to work in, held until `discard`."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    hold(folder)
    return folder


def discard(folder: Path) -> None:
    """Removes the folder that `begin` made."""
    shutil.rmtree(folder, ignore_errors=True)
    let_go(folder)


@contextlib.contextmanager
def folder(parent: Path) -> Iterator[Path]:
    """Makes a new folder to work in while the block runs, and removes it."""
    work = begin(parent)
    try:
        yield work
    finally:
        discard(work)


def is_held(path: Path) -> bool:
    """Returns whether a process holds a file or folder."""
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
    """Removes what nothing refers to and nobody holds; returns the names of what was removed.

    older: seconds for which nothing has written to what is made without being held; uploads have 24 times as many.
    """
    home = store.home
    gone = files.sweep(home.path)
    studies = {row["id"] for row in store.query("SELECT id FROM studies")}
    copies = [path for path in home.files.iterdir() if path.name not in studies and not path.name.startswith(".")]
    work = [*home.cache.glob("tmp*"), *home.path.glob("bundle-*")]
    for paths, age in (([*copies, *work], min(MADE, older)), (home.cache.glob("dropped/*"), 24 * older)):
        for path in paths:  # of uploads the page may be open the whole day
            # A clock that was set back makes times to come.
            if max(0.0, time.time() - _last_written(path)) < age or is_held(path):
                continue
            with contextlib.suppress(files.Busy), files.locked(path, wait=False):  # an import copies into a study's
                if path in copies and store.one("SELECT 1 FROM studies WHERE id = ?", [path.name]):
                    continue  # it has just come in
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
                gone.append(path.name)
    return gone


def _last_written(path: Path) -> float:
    times = []
    for inside in (path, *path.rglob("*")):
        with contextlib.suppress(OSError):  # it has just gone
            times.append(inside.stat().st_mtime)
    return max(times, default=0.0)

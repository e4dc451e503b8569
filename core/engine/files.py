"""Files and folders that are either complete or absent: written in a private folder, flushed, then renamed.

Each writer has a private folder, and each target has one writer at a time among the threads of all processes. A
memory-mapped file is never changed or truncated; a new file with the same name replaces it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import torch  # takes seconds to load, and is needed for tensors only

T = TypeVar("T")
MAKING = ".making-"  # prefix of the writers' private folders, which are next to their targets
POLL = 0.01  # seconds between two attempts to take a lock


class Busy(Exception):
    """Raised if another thread or process holds the lock."""


@contextlib.contextmanager
def locked(path: Path | str, wait: bool = True) -> Iterator[Path]:
    """Locks `path` against other threads and processes while the block runs; yields a private folder next to `path`.

    The folder holds only the lock file at first. Raises Busy if the lock is taken and `wait` is False.
    """
    path = Path(path)
    name = hashlib.sha256(path.name.casefold().encode()).hexdigest()[:16]
    with _alone(path.parent / f"{MAKING}{name}", wait) as work:
        yield work


@contextlib.contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yields a path at which to write a file or a folder, which replaces `path` in one step when the block ends.

    Other files that the block writes next to it are moved next to `path`. If the block fails or writes nothing, nothing
    changes. The yielded path has the name of `path`.
    """
    with locked(path) as work, _whole(Path(path), work) as draft:
        yield draft


def built(path: Path, read: Callable[[], T | None], make: Callable[[Path], object]) -> T:
    """Returns `read()`; if this is None or raises FileNotFoundError, `path` is first created by `make(draft_path)`.

    If several threads or processes call this at the same time, one creates `path` and the others wait. Raises
    FileNotFoundError if `read()` fails afterwards.
    """
    value = _if_there(read)
    if value is None:
        with locked(path) as work:
            value = _if_there(read)
            if value is None:
                with _whole(path, work) as draft:
                    make(draft)
                value = read()
    if value is None:
        raise FileNotFoundError(f"{path} was written but cannot be read")
    return value


def _if_there(read: Callable[[], T | None]) -> T | None:
    try:
        return read()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _whole(path: Path, work: Path) -> Iterator[Path]:
    draft = work / secrets.token_hex(6) / path.name
    draft.parent.mkdir(mode=0o700)
    try:
        yield draft
        for inside in draft.parent.rglob("*"):
            _flush(inside)
        for neighbour in draft.parent.iterdir():
            if neighbour != draft:
                os.replace(neighbour, path.with_name(neighbour.name))
        if draft.is_dir() and path.exists():
            os.replace(path, draft.parent / ".old")  # files that are open stay readable
        if draft.exists():
            os.replace(draft, path)
        _flush(path.parent)
    finally:
        shutil.rmtree(draft.parent, ignore_errors=True)


def _flush(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _alone(work: Path, wait: bool = True) -> Iterator[Path]:
    """Locks a private folder, deletes what a killed writer left in it, and removes the folder in the end."""
    from filelock import FileLock, Timeout

    lock = work / "lock"
    while True:
        file_lock = FileLock(lock, poll_interval=POLL)
        with contextlib.suppress(FileExistsError, FileNotFoundError):  # the previous writer is removing the folder
            work.mkdir(parents=True, exist_ok=True)
            try:
                file_lock.acquire(blocking=wait)
                break
            except Timeout:
                raise Busy(work.parent) from None
    try:
        for leftover in work.iterdir():
            if leftover != lock:
                shutil.rmtree(leftover, ignore_errors=True)
        yield work
    finally:
        with contextlib.suppress(OSError):  # Windows removes it when it is released
            lock.unlink()  # while it is held: waiting writers see that it is gone, and create another
        file_lock.release()
        with contextlib.suppress(OSError):  # the next writer is here already
            work.rmdir()


def sweep(folder: Path) -> list[str]:
    """Removes unfinished files of killed writers below a folder, not those of active writers; returns their names."""
    removed = []
    for work in [Path(root, name) for root, names, _ in os.walk(folder) for name in names if name.startswith(MAKING)]:
        leftovers = [inside.name for folder_left in work.glob("*/") for inside in folder_left.iterdir()]
        with contextlib.suppress(Busy, OSError), _alone(work, wait=False):
            removed += leftovers
    return removed


def mapped(path: Path | str) -> np.ndarray:
    """Memory-maps a .npy file, read-only. Opens it once, unlike `np.load`, which may see two versions of the file."""
    from numpy import memmap
    from numpy.lib import format

    with open(path, "rb") as file:
        read = format.read_array_header_1_0 if format.read_magic(file) == (1, 0) else format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        return memmap(file, dtype, "r", file.tell(), shape, "F" if fortran else "C")


def copy(source: Path | str, target: Path | str) -> None:
    """Copies a file with its times and permissions; the copy is complete or absent."""
    with replacing(target) as draft:
        shutil.copy2(source, draft)


def write_bytes(path: Path | str, data: bytes) -> None:
    """Writes `data` to `path` in one step: readers find either the old or the new file, even after a crash."""
    with replacing(path) as draft:
        draft.write_bytes(data)


def write_json(path: Path | str, value: object) -> None:
    """Writes `value` as indented JSON. Raises ValueError for NaN and infinity, which are not valid JSON."""
    write_bytes(path, (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())


def write_tensors(path: Path | str, tensors: dict[str, torch.Tensor]) -> None:
    """Writes tensors of any device and memory format as a safetensors file, each as a contiguous copy."""
    from safetensors.torch import save as safetensors_bytes

    stored = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}
    write_bytes(path, safetensors_bytes(stored))


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 of a file's content as 64 hexadecimal digits."""
    with open(path, "rb") as content:
        if hasattr(hashlib, "file_digest"):
            return hashlib.file_digest(content, "sha256").hexdigest()
        digest = hashlib.sha256()  # Python 3.10
        while block := content.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()

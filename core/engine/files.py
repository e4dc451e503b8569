"""Writes files and folders so that they are complete or absent: in a private folder, flushed, then renamed.

Each writer has a private folder, and each target has at most one writer at a time, across threads and processes. A
memory-mapped file is never changed or truncated, because new content is a new file that replaces the old one.
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
    import torch  # loads for seconds, and is needed for tensors only

T = TypeVar("T")
MAKING = ".making-"  # name prefix of the writers' private folders, which are created next to the targets
POLL = 0.01  # seconds between two attempts to take a lock


class Busy(Exception):
    """Raised if another thread or process holds the lock."""


@contextlib.contextmanager
def locked(path: Path | str, wait: bool = True) -> Iterator[Path]:
    """Context manager: locks `path` against other threads and processes; yields a private folder next to `path`.

    At first the folder contains only the lock file. Raises Busy if the lock is taken and `wait` is False.
    """
    path = Path(path)
    name = hashlib.sha256(path.name.casefold().encode()).hexdigest()[:16]
    with _alone(path.parent / f"{MAKING}{name}", wait) as work:
        yield work


@contextlib.contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Context manager: yields a path for writing a file or folder that replaces `path` when the block ends.

    The yielded path has the same name as `path`. If the block writes other files into the same folder, they are moved
    next to `path`. If the block fails or writes nothing, nothing changes.
    """
    with locked(path) as work, _whole(Path(path), work) as draft:
        yield draft


def built(path: Path, read: Callable[[], T | None], make: Callable[[Path], object]) -> T:
    """Returns `read()`. If the result is None or FileNotFoundError is raised, `make(draft_path)` first creates `path`.

    If several threads or processes call this function at the same time, one creates `path` and the others wait. Raises
    FileNotFoundError if `read` finds nothing even then.
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
            os.replace(path, draft.parent / ".old")  # open files stay readable
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
    """Locks a private folder, deletes the leftovers of a killed writer in it, and removes the folder at the end."""
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
        with contextlib.suppress(OSError):  # Windows removes the file when the lock is released
            lock.unlink()  # before the lock is released, so that waiting writers create a new lock file
        file_lock.release()
        with contextlib.suppress(OSError):  # the next writer already uses the folder
            work.rmdir()


def sweep(folder: Path) -> list[str]:
    """Removes unfinished files that killed processes left in a folder and its subfolders; returns their names."""
    removed = []
    for work in [Path(root, name) for root, names, _ in os.walk(folder) for name in names if name.startswith(MAKING)]:
        leftovers = [inside.name for folder_left in work.glob("*/") for inside in folder_left.iterdir()]
        with contextlib.suppress(Busy, OSError), _alone(work, wait=False):
            removed += leftovers
    return removed


def mapped(path: Path | str) -> np.ndarray:
    """Memory-maps a .npy file, read-only. The file is opened once, so header and data are of the same version."""
    from numpy import memmap
    from numpy.lib import format

    with open(path, "rb") as file:
        read = format.read_array_header_1_0 if format.read_magic(file) == (1, 0) else format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        return memmap(file, dtype, "r", file.tell(), shape, "F" if fortran else "C")


def copy(source: Path | str, target: Path | str) -> None:
    """Copies a file with its timestamps and permissions; the copy is either complete or absent."""
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
    """Writes tensors on any device and in any memory format to a safetensors file, as contiguous copies."""
    from safetensors.torch import save as safetensors_bytes

    stored = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}
    write_bytes(path, safetensors_bytes(stored))


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 of a file's content as 64 hexadecimal digits."""
    with open(path, "rb") as content:
        if hasattr(hashlib, "file_digest"):
            return hashlib.file_digest(content, "sha256").hexdigest()
        digest = hashlib.sha256()  # Python 3.10 has no file_digest
        while block := content.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()

"""Files and folders that are either whole or absent: written in a place of the writer's own, flushed, then renamed.

Every writer has a name of its own, and every target has one writer at a time, a thread of this process or another
process. A file that somebody has mapped is never written to or cut: it is replaced by another under its name.
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
    import torch  # which takes seconds to load, and only tensors need

T = TypeVar("T")
MAKING = ".making-"  # what the folders begin with in which writers work, beside their targets
POLL = 0.01  # seconds between two looks at a lock that another has


class Busy(Exception):
    """Another thread or process has what was to be locked."""


@contextlib.contextmanager
def locked(path: Path | str, wait: bool = True) -> Iterator[Path]:
    """Has `path` to itself while the block runs: other threads and processes wait. Yields an empty folder beside it.

    Raises Busy if another has it and `wait` is False.
    """
    path = Path(path)
    name = hashlib.sha256(path.name.casefold().encode()).hexdigest()[:16]
    with _alone(path.parent / f"{MAKING}{name}", wait) as work:
        yield work


@contextlib.contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yields a path to write a file or a folder at, which becomes `path` in one step when the block ends.

    What the block writes beside it, such as a seal, goes beside `path`. If the block fails or writes nothing, all stays
    as it was. The last part of the path yielded is that of `path`.
    """
    with locked(path) as work, _whole(Path(path), work) as own:
        yield own


def built(path: Path, read: Callable[[], T | None], make: Callable[[Path], object]) -> T:
    """Returns what `read()` gives; if that is None, or a file is missing, first has `make(own)` write `path`, once.

    However many ask at once: one makes it, the others wait and read. Raises FileNotFoundError if it cannot be read
    though it was made.
    """
    value = _if_there(read)
    if value is None:
        with locked(path) as work:
            value = _if_there(read)
            if value is None:
                with _whole(path, work) as own:
                    make(own)
                value = read()
    if value is None:
        raise FileNotFoundError(f"{path} was made and cannot be read")
    return value


def _if_there(read: Callable[[], T | None]) -> T | None:
    try:
        return read()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _whole(path: Path, work: Path) -> Iterator[Path]:
    own = work / secrets.token_hex(6) / path.name
    own.parent.mkdir(mode=0o700)
    try:
        yield own
        for inside in own.parent.rglob("*"):
            _flush(inside)
        for beside in own.parent.iterdir():
            if beside != own:
                os.replace(beside, path.with_name(beside.name))
        if own.is_dir() and path.exists():
            os.replace(path, own.parent / ".old")  # who has a file of it open keeps that
        if own.exists():
            os.replace(own, path)
        _flush(path.parent)
    finally:
        shutil.rmtree(own.parent, ignore_errors=True)


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
    """Locks a folder to work in, empties it of what a killed writer left, and removes it in the end."""
    from filelock import FileLock, Timeout

    lock = work / "lock"
    while True:
        held = FileLock(lock, poll_interval=POLL)
        with contextlib.suppress(FileExistsError, FileNotFoundError):  # the writer before is just removing the folder
            work.mkdir(parents=True, exist_ok=True)
            try:
                held.acquire(blocking=wait)
                break
            except Timeout:
                raise Busy(work.parent) from None
    try:
        for rest in work.iterdir():
            if rest != lock:
                shutil.rmtree(rest, ignore_errors=True)
        yield work
    finally:
        with contextlib.suppress(OSError):  # Windows removes it when it is released
            lock.unlink()  # while it is held: who waits for it sees that it is gone, and makes another
        held.release()
        with contextlib.suppress(OSError):  # the next writer is here already
            work.rmdir()


def sweep(folder: Path) -> list[str]:
    """Removes what killed writers left anywhere below a folder, but nothing of writers at work; returns its names."""
    gone = []
    for work in [Path(here, name) for here, names, _ in os.walk(folder) for name in names if name.startswith(MAKING)]:
        left = [inside.name for folder_left in work.glob("*/") for inside in folder_left.iterdir()]
        with contextlib.suppress(Busy, OSError), _alone(work, wait=False):
            gone += left
    return gone


def mapped(path: Path | str) -> np.ndarray:
    """Maps an array of a .npy file for reading. `np.load` opens the file twice, which may be two files."""
    from numpy import memmap
    from numpy.lib import format

    with open(path, "rb") as file:
        read = format.read_array_header_1_0 if format.read_magic(file) == (1, 0) else format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        return memmap(file, dtype, "r", file.tell(), shape, "F" if fortran else "C")


def copy(source: Path | str, target: Path | str) -> None:
    """Copies a file with its times and rights; the copy is whole or absent."""
    with replacing(target) as own:
        shutil.copy2(source, own)


def write_bytes(path: Path | str, data: bytes) -> None:
    """Replace `path` by `data` in one step: a reader, or a crash at any moment, finds the old file or the new one."""
    with replacing(path) as own:
        own.write_bytes(data)


def write_json(path: Path | str, value: object) -> None:
    """Writes `value` as indented JSON; NaN and infinity are refused, since not every reader of JSON takes them."""
    write_bytes(path, (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())


def write_tensors(path: Path | str, tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> None:
    """Writes tensors of any device and memory format as one safetensors file; each is stored contiguous, on its own."""
    from safetensors.torch import save as safetensors_bytes

    stored = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}
    write_bytes(path, safetensors_bytes(stored, metadata))


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Computes the SHA-256 of a file's bytes in hexadecimal, as publishers print it."""
    with open(path, "rb") as content:
        if hasattr(hashlib, "file_digest"):
            return hashlib.file_digest(content, "sha256").hexdigest()
        digest = hashlib.sha256()  # Python 3.10
        while block := content.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()

"""Seals: the hashes of a file's blocks, kept beside the file as NAME.seal, so that damage is seen before use.

A file that is opened is checked in a sample of its blocks (a small one in all of them), `doctor` checks all.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from core.engine import files

SUFFIX = ".seal"
BLOCK = 1 << 20
SAMPLE = 16  # blocks that are read when a file is opened


class Damaged(ValueError):
    """A file that is not what was written; the message names it and says what to do."""


def seal_of(file: Path) -> Path:
    """Returns the path of a file's seal."""
    return file.with_name(file.name + SUFFIX)


def seal(file: Path) -> None:
    """Writes the seal of a file as it is now. Call this right after the file was written."""
    with file.open("rb") as content:
        blocks = [_digest(block) for block in iter(lambda: content.read(BLOCK), b"")]
    note = {"bytes": file.stat().st_size, "block": BLOCK, "blocks": blocks}
    files.write_bytes(seal_of(file), json.dumps(note).encode())


def built_array(file: Path, make: Callable[[Path], object]) -> np.ndarray:
    """Maps a sealed .npy file. One that is absent or damaged is first written by `make(path)`, once for all who ask."""

    def make_sealed(own: Path) -> None:
        make(own)
        seal(own)

    return files.built(file, lambda: kept_array(file), make_sealed)


def kept_array(file: Path) -> np.ndarray | None:
    """Maps a sealed .npy file; None if it is absent or damaged."""
    try:
        return files.mapped(file) if is_sealed(file) and not problem(file) else None
    except FileNotFoundError:
        return None


def is_sealed(file: Path) -> bool:
    """Returns whether a seal was ever kept for the file."""
    return seal_of(file).exists()


def problem(file: Path, full: bool = False) -> str | None:
    """Returns what is wrong with a file, or None if it is sound, or was never sealed. full: look at every block."""
    try:
        seal = json.loads(seal_of(file).read_text())
        size, block, blocks = int(seal["bytes"]), int(seal["block"]), list(seal["blocks"])
    except FileNotFoundError:
        return None if file.exists() else f"{file.name} is gone"
    except (OSError, ValueError, KeyError, TypeError):
        return f"the hashes of {file.name} cannot be read"
    try:
        size_now = file.stat().st_size
        if size_now != size:
            return f"{file.name} has {size_now} bytes where {size} were written"
        numbers = range(len(blocks))
        chosen = numbers if full or len(blocks) <= SAMPLE else sorted(random.sample(numbers, SAMPLE))
        with file.open("rb") as content:
            for number in chosen:
                content.seek(number * block)
                if _digest(content.read(block)) != blocks[number]:
                    return f"{file.name} is not what was written (from byte {number * block} on)"
    except OSError as error:
        return f"{file.name} cannot be read: {error.strerror or error}"
    return None


def problems(files: Iterable[Path], full: bool = False) -> list[str]:
    """Lists what is wrong with any of the files."""
    return [text for text in (problem(file, full) for file in files) if text]


def _digest(block: bytes) -> str:
    return hashlib.blake2b(block, digest_size=16).hexdigest()

"""Detects damaged files. A file's seal, stored next to it as NAME.seal, contains hashes of the file's blocks.

When a file is opened, a random sample of its blocks (all of a small file) is checked; `doctor` checks all blocks.
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
SAMPLE = 16  # number of blocks that are checked when a file is opened


class Damaged(ValueError):
    """Raised if a file is damaged; the message names the file and says what to do."""


def seal_of(file: Path) -> Path:
    """Returns the path of a file's seal."""
    return file.with_name(file.name + SUFFIX)


def seal(file: Path) -> None:
    """Writes the seal of a file. Call this right after writing the file."""
    with file.open("rb") as content:
        blocks = [_digest(block) for block in iter(lambda: content.read(BLOCK), b"")]
    note = {"bytes": file.stat().st_size, "block": BLOCK, "blocks": blocks}
    files.write_bytes(seal_of(file), json.dumps(note).encode())


def built_array(file: Path, make: Callable[[Path], object]) -> np.ndarray:
    """Memory-maps a sealed .npy file. If it is missing or damaged, one caller writes it first, with `make(path)`."""

    def make_sealed(draft: Path) -> None:
        make(draft)
        seal(draft)

    return files.built(file, lambda: kept_array(file), make_sealed)


def kept_array(file: Path) -> np.ndarray | None:
    """Memory-maps a sealed .npy file; returns None if the file is missing, unsealed or damaged."""
    try:
        return files.mapped(file) if is_sealed(file) and not problem(file) else None
    except FileNotFoundError:
        return None


def is_sealed(file: Path) -> bool:
    """Returns whether a file has a seal."""
    return seal_of(file).exists()


def problem(file: Path, full: bool = False) -> str | None:
    """Describes what is wrong with a file; None if it is intact, or exists without a seal. `full` checks all blocks."""
    try:
        seal = json.loads(seal_of(file).read_text())
        size, block, blocks = int(seal["bytes"]), int(seal["block"]), list(seal["blocks"])
    except FileNotFoundError:
        return None if file.exists() else f"{file.name} is missing"
    except (OSError, ValueError, KeyError, TypeError):
        return f"the seal of {file.name} cannot be read"
    try:
        size_now = file.stat().st_size
        if size_now != size:
            return f"{file.name} has {size_now} bytes, but {size} were written"
        numbers = range(len(blocks))
        chosen = numbers if full or len(blocks) <= SAMPLE else sorted(random.sample(numbers, SAMPLE))
        with file.open("rb") as content:
            for number in chosen:
                content.seek(number * block)
                if _digest(content.read(block)) != blocks[number]:
                    return f"{file.name} was changed after it was written (from byte {number * block} on)"
    except OSError as error:
        return f"{file.name} cannot be read: {error.strerror or error}"
    return None


def problems(files: Iterable[Path], full: bool = False) -> list[str]:
    """Returns a description (see `problem`) for each file that is damaged or missing."""
    return [text for text in (problem(file, full) for file in files) if text]


def _digest(block: bytes) -> str:
    return hashlib.blake2b(block, digest_size=16).hexdigest()

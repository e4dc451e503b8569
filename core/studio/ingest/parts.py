"""One part of a study's prepared images: consecutive cases as .npy files in one folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from core.engine import files
from core.studio.db import seals
from core.studio.db.store import Store
from core.studio.ingest.masks import get_mask
from core.studio.ingest.originals import image_of
from core.studio.ingest.resize import mask_at, prepare
from core.studio.ingest.unreadable import Unreadable

MASKS = 3  # sets of masks kept for a part: references, and those that a reader has just changed
COPIED = 64  # rows copied at once from one file to another


def cases_in(folder: Path) -> int:
    """Returns how many cases a part, or a folder of parts, holds; 0 if that cannot be read."""
    try:
        return int(json.loads((folder / "meta.json").read_text())["cases"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def is_sound(folder: Path, full: bool = False) -> bool:
    """Returns whether the arrays of a part are complete and unchanged (full: checks every block of them)."""
    arrays = [folder / "images.npy", folder / "roi.npy"]
    is_complete = (folder / "meta.json").exists() and all(map(seals.is_sealed, arrays))
    return is_complete and not seals.problems([*arrays, *folder.glob("masks-*.npy")] if full else arrays, full)


def _room(file: Path, shape: tuple[int, ...]) -> np.memmap:
    """Creates a mapped uint8 array with its disk space reserved. Raises OSError if the disk is full, because writing to
    a mapped file without space would end the process."""
    array = np.lib.format.open_memmap(file, "w+", np.uint8, shape)
    if hasattr(os, "posix_fallocate"):
        with file.open("rb+") as content:
            os.posix_fallocate(content.fileno(), 0, file.stat().st_size)
    return array


def write(
    folder: Path, cases: list[dict], size: int, copied: Sequence[Path] = (), on_case: Callable[[], None] | None = None
) -> None:
    """Prepares `cases` into the folder. The first ones are copied from the parts `copied`, the others are decoded.

    on_case: called after each decoded case. Raises ValueError if a file can no longer be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shape = (len(cases), size, size)
    images = _room(folder / "images.npy", (*shape, 3))
    rois = _room(folder / "roi.npy", shape)
    start = 0
    for source_folder in copied:
        stored = np.load(source_folder / "images.npy", mmap_mode="r"), np.load(source_folder / "roi.npy", mmap_mode="r")
        for first in range(0, len(stored[0]), COPIED):
            for source, target in zip(stored, (images, rois), strict=True):
                block = source[first : first + COPIED]
                target[start + first : start + first + len(block)] = block
        start += len(stored[0])

    def prepare_case(i: int) -> None:
        try:
            image = image_of(cases[i])
        except Unreadable as error:
            raise ValueError(f"{cases[i]['path']!r} can no longer be read: {error}; import the study again") from None
        images[i], rois[i] = prepare(image, size)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(prepare_case, range(start, len(cases))):
            if on_case:
                on_case()
    images.flush()
    rois.flush()
    seals.seal(folder / "images.npy")
    seals.seal(folder / "roi.npy")
    describe(folder, size, len(cases))


def describe(folder: Path, size: int, cases: int) -> None:
    """Writes meta.json, which says what a part, or a folder of parts, holds."""
    (folder / "meta.json").write_text(json.dumps({"size": size, "cases": cases}))


def link(source: Path, target: Path) -> None:
    """Links the arrays of a part into a second folder, or copies them if the disk does not support links.

    Raises FileNotFoundError if the part is removed meanwhile.
    """
    target.mkdir(parents=True)
    for file in [source / "meta.json", *source.glob("*.npy"), *source.glob(f"*.npy{seals.SUFFIX}")]:
        try:
            (target / file.name).hardlink_to(file)
        except FileNotFoundError:
            raise
        except OSError:
            shutil.copy2(file, target / file.name)


def masks_of(
    store: Store, folder: Path, size: int, cases: list[dict], truth: dict[int, int], build: bool = True
) -> np.ndarray:
    """Maps the lesion masks uint8 (n, S, S) of a part's cases; rebuilt if one changed. truth: {case id: mask id}.

    Raises FileNotFoundError if they are not built yet and `build` is False.
    """
    mask_ids = {c["id"]: truth[c["id"]] for c in cases if c["id"] in truth}
    key = hashlib.sha256(repr(sorted(mask_ids.items())).encode()).hexdigest()[:12]
    file = folder / f"masks-{key}.npy"
    array = seals.kept_array(file)
    if array is not None:
        return array
    if not build:
        raise FileNotFoundError(file)

    def make(draft: Path) -> None:
        masks = _room(draft, (len(cases), size, size))
        for i, case in enumerate(cases):
            if case["id"] in mask_ids:
                masks[i] = mask_at(get_mask(store, mask_ids[case["id"]]), size)
        masks.flush()

    array = seals.built_array(file, make)
    with contextlib.suppress(FileNotFoundError):  # another process has just removed them
        for old in sorted(folder.glob("masks-*.npy"), key=lambda file: file.stat().st_mtime)[:-MASKS]:
            with files.locked(old):
                old.unlink(missing_ok=True)
                seals.seal_of(old).unlink(missing_ok=True)
    return array

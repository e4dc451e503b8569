"""Caches the resized images, regions of interest and lesion masks of a study as memory-mapped .npy files.

There is one set of files per image size. When cases are added to a study, a new set reuses the parts of the old set and
adds a part for the new cases. Preceding parts that are not larger are merged into it, so that a set has few parts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.engine import files
from core.engine.rows import Joined, Rows
from core.studio.db import seals
from core.studio.db.home import Home
from core.studio.db.store import NotFound, Store
from core.studio.ingest.masks import get_mask, reference_masks
from core.studio.ingest.originals import image_of
from core.studio.ingest.resize import ROI_SIDE, mask_at, prepare
from core.studio.ingest.unreadable import Unreadable

VERSION = 1  # to be increased when the cached pixels change
TRIES = 3
MASKS = 3  # mask files kept per part, such as the reference masks before and after a change
COPIED = 64  # images copied at a time


@dataclass
class StudyArrays:
    """Image arrays of the N cases of a study, resized to S x S pixels, in the order of the cases' column `row`.

    images: RGB images, uint8 `(N, S, S, 3)`, memory-mapped.
    roi: Regions of interest, uint8 `(N, S, S)`, 1 inside.
    masks: Lesion masks, uint8 `(N, S, S)`, 1 inside lesions.
    has_mask: Whether each case has a lesion mask, bool `(N,)`.
    split: Split of each case, str `(N,)`.
    label: Label of each case, str `(N,)`.
    case_ids: Id of each case, int64 `(N,)`.
    """

    images: Rows
    roi: Rows
    masks: Rows
    has_mask: np.ndarray
    split: np.ndarray
    label: np.ndarray
    case_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.case_ids)

    def index(self, *splits: str, label: str | None = None) -> np.ndarray:
        """Returns the indices of the cases in `splits` (default: all) and, if `label` is given, with this label."""
        keep = np.isin(self.split, splits) if splits else np.ones(len(self), bool)
        return np.flatnonzero(keep & (self.label == label) if label else keep)


Progress = Callable[[int, int], None]


def load_arrays(
    store: Store,
    study: str,
    size: int,
    on_progress: Progress | None = None,
    masks: dict[int, int] | None = None,
) -> StudyArrays:
    """Loads the image arrays of a study at `size` x `size` pixels, and builds them on first use.

    `masks` maps case ids to the ids of the lesion masks to load, and defaults to the reference masks. Raises NotFound
    if the study has no images, and ValueError if an image cannot be read or the size is out of range.
    """
    if not 16 <= size <= 4096:
        raise ValueError(f"size must be 16 to 4096 pixels, not {size}")
    for tries_left in reversed(range(TRIES)):
        erasures_before = erasures(store)
        try:
            arrays = _loaded(store, study, size, masks, on_progress)
            if erasures(store) == erasures_before:
                return arrays
            shutil.rmtree(store.home.cache / study, ignore_errors=True)  # it may hold images of erased patients
            raise FileNotFoundError(f"images of {study} were erased while they were being prepared")
        except FileNotFoundError:  # deleted in the meantime
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


def erasures(store: Store) -> int:
    """Returns the number of erasures that have already deleted their cases."""
    return int(store.first("SELECT count(*) AS n FROM erasures WHERE step IS NOT 'rows'")["n"])


def _loaded(
    store: Store, study: str, size: int, masks: dict[int, int] | None, on_progress: Progress | None
) -> StudyArrays:
    try:
        return _mapped(store, study, size, masks)
    except FileNotFoundError:
        with files.locked(store.home.cache / study / str(size)):  # no other process may build or delete a set meanwhile
            return _mapped(store, study, size, masks, True, on_progress)


def _mapped(
    store: Store,
    study: str,
    size: int,
    chosen: dict[int, int] | None,
    build: bool = False,
    on_progress: Progress | None = None,
) -> StudyArrays:
    """Maps the arrays into memory. Raises FileNotFoundError if the arrays are not built yet and `build` is False."""
    cases = store.query('SELECT * FROM cases WHERE study = ? ORDER BY "row"', [study])
    if not cases:
        raise NotFound(f"the study {study!r} does not exist or has no images")
    folder = store.home.cache / study / _names(cases, size, [len(cases)])[len(cases)]
    if not is_sound(folder):
        if not build:
            raise FileNotFoundError(folder)
        if folder.exists():
            logging.getLogger(__name__).warning("the prepared images in %s are damaged and will be rebuilt", folder)
        _build(folder, cases, size, on_progress)
    mask_ids = reference_masks(store, study) if chosen is None else chosen
    masks, start = [], 0
    part_folders = parts_of(folder)
    for part_folder in part_folders:
        stop = start + cases_in(part_folder)
        masks.append(masks_of(store, part_folder, size, cases[start:stop], mask_ids, build))
        start = stop
    return StudyArrays(
        _joined([files.mapped(folder / "images.npy") for folder in part_folders]),
        _joined([files.mapped(folder / "roi.npy") for folder in part_folders]),
        _joined(masks),
        np.array([c["id"] in mask_ids for c in cases]),
        np.array([c["split"] for c in cases]),
        np.array([c["label"] for c in cases]),
        np.array([c["id"] for c in cases], np.int64),
    )


def _joined(arrays: list[np.ndarray]) -> Rows:
    return arrays[0] if len(arrays) == 1 else Joined(arrays)


def _names(cases: list[dict], size: int, counts: Iterable[int]) -> dict[int, str]:
    """Returns {n: folder name for a set of the first n cases} for each n in `counts`."""
    from core.engine import roi

    key = hashlib.sha256(Path(roi.__file__).read_bytes() + f"{VERSION} {ROI_SIDE}".encode())
    wanted_counts, names = set(counts), {}
    for count, case in enumerate(cases, start=1):
        key.update(f"{case['sha256']} {case['frame']}{case['scale'] or ''}\n".encode())
        if count in wanted_counts:
            names[count] = f"{size}-{key.hexdigest()[:12]}"
    return names


def folders(home: Home) -> list[Path]:
    """Returns the folders of all complete sets of prepared images, for all studies and image sizes."""
    complete = sorted(meta.parent for meta in home.cache.glob("*/*/meta.json"))
    return [folder for folder in complete if (parts_of(folder)[0] / "images.npy").exists()]


def parts_of(folder: Path) -> list[Path]:
    """Returns the part folders of a cached set in order, or the set's own folder if it has no parts."""
    return sorted(folder.glob("part-*")) or [folder]


def is_sound(folder: Path, full: bool = False) -> bool:
    """Returns whether a cached set is complete and undamaged. `full` checks all data and masks, not only a sample."""
    members = parts_of(folder)
    count = cases_in(folder)
    return count > 0 and count == sum(map(cases_in, members)) and all(_is_part_sound(p, full) for p in members)


def _build(folder: Path, cases: list[dict], size: int, on_progress: Progress | None) -> None:
    """Prepares the images of `cases`, and reuses those of an intact set of the first cases if such a set exists."""
    old_parts = _before(folder.parent, cases, size)
    reused = sum(map(cases_in, old_parts))
    new, done = len(cases) - reused, 0
    copied: list[Path] = []
    while old_parts and cases_in(old_parts[-1]) <= len(cases) - reused:
        copied.insert(0, old_parts.pop())
        reused -= cases_in(copied[0])

    def on_case() -> None:
        nonlocal done
        done += 1
        if on_progress:
            on_progress(done, new)

    with files.replacing(folder) as target:
        for number, source in enumerate(old_parts):
            _link(source, target / _part(number))
        write_part(target / _part(len(old_parts)) if old_parts else target, cases[reused:], size, copied, on_case)
        if old_parts:
            _describe(target, size, len(cases))
    for old in folder.parent.glob(f"{size}-*"):
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)


def _before(folder: Path, cases: list[dict], size: int) -> list[Path]:
    """Returns the parts of the largest intact set that contains only the first of the `cases`, or [] if none exists."""
    sets = [(cases_in(other), other) for other in folder.glob(f"{size}-*")]
    names = _names(cases[:-1], size, [count for count, _ in sets])
    for count, other in sorted(sets, reverse=True):
        if names.get(count) == other.name and is_sound(other):
            return parts_of(other)
    return []


def _part(number: int) -> str:
    return f"part-{number:02d}"


# A part of a set: consecutive cases as .npy files in one folder.


def cases_in(folder: Path) -> int:
    """Returns the number of cases in a cached set or part according to its meta.json, or 0 if that is unreadable."""
    try:
        return int(json.loads((folder / "meta.json").read_text())["cases"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _is_part_sound(folder: Path, full: bool = False) -> bool:
    arrays = [folder / "images.npy", folder / "roi.npy"]
    is_complete = (folder / "meta.json").exists() and all(map(seals.is_sealed, arrays))
    return is_complete and not seals.problems([*arrays, *folder.glob("masks-*.npy")] if full else arrays, full)


def _room(file: Path, shape: tuple[int, ...]) -> np.memmap:
    """Creates a memory-mapped uint8 array and reserves its disk space, so that a full disk raises OSError at once."""
    array = np.lib.format.open_memmap(file, "w+", np.uint8, shape)
    if hasattr(os, "posix_fallocate"):
        with file.open("rb+") as content:
            os.posix_fallocate(content.fileno(), 0, file.stat().st_size)
    return array


def write_part(
    folder: Path, cases: list[dict], size: int, copied: Sequence[Path] = (), on_case: Callable[[], None] | None = None
) -> None:
    """Writes a part of a cached set: copies the first cases from the parts `copied`; decodes and resizes the others.

    `on_case` is called after each decoded case. Raises ValueError if an image file can no longer be read.
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
    _describe(folder, size, len(cases))


def _describe(folder: Path, size: int, cases: int) -> None:
    (folder / "meta.json").write_text(json.dumps({"size": size, "cases": cases}))


def _link(source: Path, target: Path) -> None:
    """Links the arrays of a part into a second folder, or copies them if the disk does not support hard links.

    Raises FileNotFoundError if the part has been removed meanwhile.
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
    """Returns the memory-mapped lesion masks of the n cases in a part of a cached set, uint8 `(n, size, size)`.

    `truth` maps case ids to mask ids. Raises FileNotFoundError if these masks are not built yet and `build` is False.
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

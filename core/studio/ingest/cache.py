"""A study's decoded images, regions of interest and lesion masks, once per size, as memory-mapped .npy files."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from core.studio.db import seals
from core.studio.db.home import Home
from core.studio.db.store import NotFound, Store
from core.studio.ingest.masks import get_mask, truth_masks
from core.studio.ingest.originals import image_of
from core.studio.ingest.unreadable import Unreadable

VERSION = 1  # raise it when the pixels written here change
TRIES = 3
ROI_SIDE = 512  # the region of interest is looked for at no more than this: burned-in text is still legible


@dataclass
class StudyArrays:
    """N cases in the order of their rows.

    images uint8 (N, S, S, 3) RGB, memory-mapped; roi uint8 (N, S, S) 1 = inside; masks uint8 (N, S, S) 1 = lesion;
    has_mask bool (N,); split and label str (N,); case_ids int64 (N,).
    """

    images: np.ndarray
    roi: np.ndarray
    masks: np.ndarray
    has_mask: np.ndarray
    split: np.ndarray
    label: np.ndarray
    case_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.case_ids)

    def index(self, *splits: str, label: str | None = None) -> np.ndarray:
        """Rows of the given splits (all when none is given), of one label if given."""
        keep = np.isin(self.split, splits) if splits else np.ones(len(self), bool)
        return np.flatnonzero(keep & (self.label == label) if label else keep)


Progress = Callable[[int, int], None]


def load_arrays(store: Store, study: str, size: int, on_progress: Progress | None = None) -> StudyArrays:
    """Arrays of a study at `size` x `size`; built once, then mapped. Raises ValueError if a file has gone."""
    if not 16 <= size <= 4096:
        raise ValueError(f"size must lie between 16 and 4096 pixels, not {size}")
    for left in reversed(range(TRIES)):
        cases = store.query('SELECT * FROM cases WHERE study = ? ORDER BY "row"', [study])
        if not cases:
            raise NotFound(f"there is no study {study!r}, or it has no images")
        try:
            return _mapped(store, study, size, cases, on_progress)
        except FileNotFoundError:  # cases came in, and a process beside this one built anew and cleared the old away
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def _mapped(store: Store, study: str, size: int, cases: list[dict], on_progress: Progress | None) -> StudyArrays:
    folder = _folder(store, study, size, cases)
    if not is_sound(folder):
        if folder.exists():
            logging.getLogger(__name__).warning("the prepared images in %s are damaged: they are made again", folder)
        _build(folder, cases, size, on_progress)
    masks, has_mask = _masks(store, folder, study, size, cases)
    return StudyArrays(
        np.load(folder / "images.npy", mmap_mode="r"),
        np.load(folder / "roi.npy", mmap_mode="r"),
        masks,
        has_mask,
        np.array([c["split"] for c in cases]),
        np.array([c["label"] for c in cases]),
        np.array([c["id"] for c in cases], np.int64),
    )


def _folder(store: Store, study: str, size: int, cases: list[dict]) -> Path:
    from core.engine import roi

    key = hashlib.sha256(Path(roi.__file__).read_bytes() + f"{VERSION} {ROI_SIDE}".encode())
    for case in cases:
        key.update(f"{case['sha256']} {case['frame']}{case['scale'] or ''}\n".encode())
    return store.home.cache / study / f"{size}-{key.hexdigest()[:12]}"


def folders(home: Home) -> list[Path]:
    """Every set of prepared images that is there, of any study and size."""
    return sorted(meta.parent for meta in home.cache.glob("*/*/meta.json") if (meta.parent / "images.npy").exists())


def is_sound(folder: Path, full: bool = False) -> bool:
    """Whether the prepared images and regions of interest in a folder are complete, and are what was written."""
    files = [folder / "images.npy", folder / "roi.npy"]
    whole = (folder / "meta.json").exists() and all(map(seals.is_sealed, files))
    return whole and not seals.problems([*files, *folder.glob("masks-*.npy")] if full else files, full)


def _build(folder: Path, cases: list[dict], size: int, on_progress: Progress | None) -> None:
    partial = folder.with_name(f"{folder.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        shape = (len(cases), size, size)
        images = np.lib.format.open_memmap(partial / "images.npy", "w+", np.uint8, (*shape, 3))
        rois = np.lib.format.open_memmap(partial / "roi.npy", "w+", np.uint8, shape)

        def one(i: int) -> None:
            try:
                image = image_of(cases[i])
            except Unreadable as error:
                raise ValueError(
                    f"{cases[i]['path']!r} can no longer be read: {error}; import the study again"
                ) from None
            images[i], rois[i] = prepare(image, size)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for done, _ in enumerate(pool.map(one, range(len(cases))), start=1):
                if on_progress:
                    on_progress(done, len(cases))
        images.flush()
        rois.flush()
        seals.seal(partial / "images.npy")
        seals.seal(partial / "roi.npy")
        (partial / "meta.json").write_text(json.dumps({"size": size, "cases": len(cases)}))
        _put(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    for old in folder.parent.glob(f"{size}-*"):
        if old != folder and not old.name.endswith(".partial"):
            shutil.rmtree(old, ignore_errors=True)


def _put(partial: Path, folder: Path) -> None:
    """Move a finished folder into place; a damaged one that is there goes, one that another process made stays."""
    try:
        partial.rename(folder)
    except OSError:
        if is_sound(folder):
            return
        damaged = partial.with_name(f"{folder.name}.{os.getpid()}.damaged.partial")
        folder.rename(damaged)
        partial.rename(folder)
        shutil.rmtree(damaged, ignore_errors=True)


def prepare(image: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """uint8 (H, W, 3) at full resolution -> what a run works on: image (S, S, 3) and region of interest (S, S)."""
    from core.engine.roi import find_roi

    scale = min(1.0, ROI_SIDE / max(image.shape[:2]))
    looked = shrink(image, round(image.shape[1] * scale), round(image.shape[0] * scale))
    return shrink(image, size, size), (fraction(find_roi(looked), size) >= 0.5).astype(np.uint8)


def _masks(store: Store, folder: Path, study: str, size: int, cases: list[dict]) -> tuple[np.ndarray, np.ndarray]:
    truth = truth_masks(store, study)
    key = hashlib.sha256(repr(sorted(truth.items())).encode()).hexdigest()[:12]
    file = folder / f"masks-{key}.npy"
    has_mask = np.array([c["id"] in truth for c in cases])
    if not (file.exists() and seals.is_sealed(file)) or seals.problem(file):
        partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
        try:
            masks = np.lib.format.open_memmap(partial, "w+", np.uint8, (len(cases), size, size))
            for i in np.flatnonzero(has_mask):
                masks[i] = mask_at(get_mask(store, truth[cases[i]["id"]]), size)
            masks.flush()
            seals.seal(partial)
            seals.seal_of(partial).replace(seals.seal_of(file))
            partial.replace(file)
        finally:
            for rest in (partial, seals.seal_of(partial)):
                rest.unlink(missing_ok=True)
        for old in folder.glob("masks-*.npy"):
            if old != file:
                old.unlink(missing_ok=True)
                seals.seal_of(old).unlink(missing_ok=True)
    return np.load(file, mmap_mode="r"), has_mask


def shrink(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """Resize by area when smaller, bilinearly when larger."""
    smaller = width * height < image.shape[0] * image.shape[1]
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)


def fraction(mask: np.ndarray, size: int) -> np.ndarray:
    """(H, W) of 0 and 1 -> float32 (size, size): how much of each pixel is covered."""
    return shrink(mask.astype(np.float32), size, size)


def mask_at(mask: np.ndarray, size: int) -> np.ndarray:
    """A lesion mask at training size: a pixel is lesion if half of it is; a tiny one keeps its best pixel."""
    covered = fraction(mask, size)
    small = covered >= 0.5
    if not small.any() and mask.any():
        small = covered == covered.max()
    return small.astype(np.uint8)


def rows_of(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    """array[index]; when the rows lie side by side, a view of the mapped file instead of a copy in memory."""
    if len(index) and index[-1] - index[0] + 1 == len(index) and (np.diff(index) == 1).all():
        return array[index[0] : index[-1] + 1]
    return array[index]

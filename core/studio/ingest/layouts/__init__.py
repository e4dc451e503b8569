"""Layouts of folders: one file each, offering `TITLE`, `fits(folder) -> bool` and `entries(folder)`.

The first that fits, in the order of `ORDER`, is used; a file added here comes just before the flat one.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from core.studio.ingest.decode import SUFFIXES
from core.studio.ingest.roots import Within

OUTSIDE = "it lies, or leads by a link, outside of the folders that may be imported from"
ORDER = ("table", "plain", "bmad", "mvtec", "flat")
_NOT_IMAGES = {
    ".txt",
    ".md",
    ".csv",
    ".json",
    ".xml",
    ".yaml",
    ".yml",
    ".html",
    ".pdf",
    ".ini",
    ".log",
    ".sqlite",
    ".zip",
}
ANYWHERE = Within(None)
_NOISE = {"thumbs.db", "desktop.ini", "dicomdir", "license", "readme", "licence"}


class BadFolder(ValueError):
    """A folder that no layout fits; the message says what was looked for."""


@dataclass(frozen=True)
class Entry:
    """One file as its layout understands it. `problem` is set when the layout already knows what is wrong.

    patient: whose image it is, where the layout says so.
    """

    path: Path
    split: str = "train"
    label: str = "normal"
    mask: Path | None = None
    tags: tuple[str, ...] = ()
    problem: str | None = None
    patient: str | None = None


def files_under(folder: Path) -> Iterator[Path]:
    """Lists every file that may be an image, in a steady order. Hidden files and known documents are passed over."""
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(names):
            suffix = os.path.splitext(name)[1].lower()
            if name.startswith(".") or name.lower() in _NOISE or suffix in _NOT_IMAGES:
                continue
            yield Path(here) / name


def by_stem(folder: Path) -> dict[str, Path]:
    """Maps the names of images to their masks: `a.png`, `a_mask.png` and `a-mask.png` are all masks of `a`."""
    by_name = {}
    for path in files_under(folder):
        stem = path.stem if path.suffix.lower() in SUFFIXES else path.name
        by_name[stem] = path
        for ending in ("_mask", "-mask"):
            if stem.endswith(ending):
                by_name[stem[: -len(ending)]] = path
    return by_name


def with_masks(parts: Iterable[tuple[str, Path, str]], masks: Path, place: str) -> Iterator[Entry]:
    """Yields the images of parts (split, folder, label), test images that are not normal with their mask in `masks`.

    A mask has its image's name. One without an image is an entry with a problem; `place`: where its image should be.
    """
    by_name = by_stem(masks)
    used = set()
    for split, folder, label in parts:
        for path in files_under(folder):
            mask = by_name.get(path.stem) if split == "test" and label != "normal" else None
            used.add(mask)
            yield Entry(path, split, label, mask)
    for mask in sorted(set(by_name.values()) - used):
        yield Entry(mask, "test", problem=f"a mask without an image of its name in {place}")


def layouts() -> list[str]:
    """Returns the names of the layouts, in the order in which they are tried."""
    there = [m.name for m in pkgutil.iter_modules(__path__)]
    others = sorted(set(there) - set(ORDER))
    return [name for name in (*ORDER[:-1], *others, ORDER[-1]) if name in there]


class Entries(Sized, Iterable[Entry]):
    """The entries that a layout finds in a folder, looked for anew at each iteration, so that none lies in memory."""

    def __init__(self, find: Callable[[], Iterator[Entry]]):
        self._find = find
        self._count: int | None = None

    def __iter__(self) -> Iterator[Entry]:
        return self._find()

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(1 for _ in self._find())
        return self._count


def _entries(module: ModuleType, folder: Path, within: Within) -> Iterator[Entry]:
    return confined(module.entries(folder), within)


def confined(entries: Iterable[Entry], within: Within) -> Iterator[Entry]:
    """Yields the entries; one whose image or mask lies outside of `within` as a problem, a link that leads out once."""
    refused = set()
    for entry in entries:
        paths = [path for path in (entry.path, entry.mask) if path is not None]
        outside = next((path for path in paths if not within.holds(path)), None)
        if outside is None:
            yield entry
        elif outside != entry.path:
            yield Entry(entry.path, problem=f"its mask cannot be read: {OUTSIDE}")
        elif (place := within.refused(outside)) not in refused:
            refused.add(place)
            yield Entry(place, problem=OUTSIDE)


def read_layout(folder: Path, layout: str | None = None, within: Within = ANYWHERE) -> tuple[str, Entries]:
    """Returns a layout's name and its entries. Raises BadFolder if the folder is missing, empty or of no known layout.

    within: where each image and mask must lie, links followed; what lies elsewhere is an entry with a problem.
    """
    tables = [folder] if folder.suffix.lower() == ".csv" else sorted(folder.glob("*.csv"))
    for table in tables:
        if not within.holds(table):
            raise BadFolder(f"{table.name}: {OUTSIDE}")
    if not folder.exists():
        raise BadFolder(f"there is no folder {folder}")
    names = layouts()
    if layout is not None and layout not in names:
        raise BadFolder(f"there is no layout {layout!r}; there are: {', '.join(names)}")
    for name in [layout] if layout else names:
        module = importlib.import_module(f"{__name__}.{name}")
        if layout or module.fits(folder):
            entries = Entries(functools.partial(_entries, module, folder, within))
            if len(entries):
                return name, entries
    raise BadFolder(
        f"no images found in {folder}: expected train/normal and test/normal, test/abnormal, test/mask; or train/good "
        "and test/*, ground_truth/*; or train/good, valid/good, test/good, test/Ungood; or a folder of normal images; "
        "or a CSV with columns path, split, label, mask"
    )

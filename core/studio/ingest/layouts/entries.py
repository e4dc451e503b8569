"""Defines `Entry` and `Group`, which describe the files that a layout finds, and lists the files of a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path

from core.studio.ingest.roots import Within

OUTSIDE = "it lies, or a link leads, outside the folders from which imports are allowed"
ANSWERS = ("normal", "abnormal", "out")
SAMPLES = 6  # images shown per group
_NOT_IMAGES = frozenset(
    f".{suffix}" for suffix in (
        "csv", "doc", "docx", "html", "ini", "ipynb", "json", "log", "md", "ods", "pdf", "py", "sqlite", "tsv", "txt",
        "xls", "xlsx", "xml", "yaml", "yml", "zip",
    )
)  # fmt: skip
ANYWHERE = Within(None)
_NOISE = {"thumbs.db", "desktop.ini", "dicomdir", "license", "readme", "licence"}


class BadFolder(ValueError):
    """Raised if a folder or table cannot be interpreted. The message says what was expected."""


@dataclass(frozen=True)
class Entry:
    """Image file with its split, label, lesion masks and patient, as stated by the layout of its folder or table."""

    path: Path
    split: str = "train"
    label: str = "normal"
    masks: tuple[Path, ...] = ()
    tags: tuple[str, ...] = ()
    problem: str | None = None  # reason why the file cannot be imported, or None
    patient: str | None = None
    group: str = "."  # folder or label that determines the class
    doubt: str | None = None  # reason to ask a person about the group, or None


@dataclass
class Group:
    """Images of one folder or label that have the same class, according to the layout or to a person's answer."""

    name: str
    meaning: str  # such as "train normal" or "left out", or "" if a person is asked
    images: int = 0  # number of images
    masks: int = 0  # number of images with masks
    why: str | None = None  # doubt or problem of the entries
    samples: list[Path] = field(default_factory=list)  # the first SAMPLES images


class Question(ValueError):
    """Raised, before anything is stored, if an import needs an answer from a person.

    layout: Name of the layout of the folder.
    groups: All groups of images, including those that the person is asked about.
    erased: Number of files that were erased from this home earlier.
    """

    def __init__(self, message: str, layout: str = "", groups: Sequence[Group] = (), erased: int = 0) -> None:
        self.layout, self.groups, self.erased = layout, groups, erased
        super().__init__(message)


class Unclear(BadFolder, Question):
    """Raised if the names in a folder or table do not show which images are normal."""

    def __init__(self, layout: str, groups: list[Group]) -> None:
        unclear = [g for g in groups if not g.meaning]
        listed = "; ".join(f"{g.name}: {_count(g.images)}, {g.why}" for g in unclear[:8])
        more = f"; and {len(unclear) - 8} more groups" if len(unclear) > 8 else ""
        text = f"Nothing was stored, because it is not clear which images are normal: {listed}{more}"
        super().__init__(text, layout, groups)


def _count(images: int) -> str:
    return f"{images:,} image{'' if images == 1 else 's'}"


def walk(folder: Path, within: Within = ANYWHERE) -> Iterator[tuple[Path, str | None, bool]]:
    """Yields (path, reason for refusing it or None, whether it may be an image) for each file, in a stable order.

    Hidden files are omitted. Each linked folder is visited once, or refused if it lies outside `within`.
    """
    walked = {os.path.realpath(folder)}
    for here, folders, names in os.walk(folder, followlinks=True):
        inside = []
        for name in sorted(f for f in folders if not f.startswith(".")):
            subfolder = Path(here, name)
            if not subfolder.is_symlink():
                inside.append(name)
            elif not within.holds(subfolder):
                yield subfolder, OUTSIDE, False
            elif (real := os.path.realpath(subfolder)) not in walked:
                walked.add(real)
                inside.append(name)
        folders[:] = inside
        for name in sorted(names):
            if not name.startswith(".") and name.lower() not in _NOISE:
                yield Path(here, name), None, os.path.splitext(name)[1].lower() not in _NOT_IMAGES


def files_under(folder: Path) -> Iterator[Path]:
    """Yields each file below a folder that may be an image, in a stable order. Hidden files are omitted."""
    return (path for path, _, may_be_image in walk(folder) if may_be_image)


class Entries(Sized, Iterable[Entry]):
    """Entries that a layout finds in a folder. Each iteration searches the folder again, to save memory."""

    def __init__(self, find: Callable[[], Iterator[Entry]]):
        self._find = find
        self._count: int | None = None

    def __iter__(self) -> Iterator[Entry]:
        return self._find()

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(1 for _ in self._find())
        return self._count

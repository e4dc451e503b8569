"""The result of reading a layout (an entry per file, groups of entries), and the traversal of a folder's files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path

from core.studio.ingest.roots import Within

OUTSIDE = "it lies, or leads by a link, outside of the folders that may be imported from"
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
    """Raised if no layout fits a folder; the message says what was expected."""


@dataclass(frozen=True)
class Entry:
    """A file as its layout interprets it. problem: why it is not imported, if the layout already says so.

    masks: files of its lesion masks. patient: its patient, if the layout names one. group: the folder or label that
    determines its class; doubt: why a person is asked about that group.
    """

    path: Path
    split: str = "train"
    label: str = "normal"
    masks: tuple[Path, ...] = ()
    tags: tuple[str, ...] = ()
    problem: str | None = None
    patient: str | None = None
    group: str = "."
    doubt: str | None = None


@dataclass
class Group:
    """Images that a layout, or a person's answer, puts into the same class.

    meaning: such as "train normal" or "left out", "" if a person is asked; why: the doubt or problem of its entries;
    samples: the first few images.
    """

    name: str
    meaning: str
    images: int = 0
    masks: int = 0
    why: str | None = None
    samples: list[Path] = field(default_factory=list)


class Question(ValueError):
    """Raised if an import needs a person's answer; nothing is stored.

    layout: how the folder was read; groups: what was understood, and what is asked about; erased: how many of its files
    were erased from this home.
    """

    def __init__(self, message: str, layout: str = "", groups: Sequence[Group] = (), erased: int = 0) -> None:
        self.layout, self.groups, self.erased = layout, groups, erased
        super().__init__(message)


class Unclear(BadFolder, Question):
    """Raised if a folder does not say which of its images are normal."""

    def __init__(self, layout: str, groups: list[Group]) -> None:
        unclear = [g for g in groups if not g.meaning]
        listed = "; ".join(f"{g.name}: {_count(g.images)}, {g.why}" for g in unclear[:8])
        more = f"; and {len(unclear) - 8} more groups" if len(unclear) > 8 else ""
        text = f"Nothing was stored, because it is not clear which images are normal: {listed}{more}"
        super().__init__(text, layout, groups)


def _count(images: int) -> str:
    return f"{images:,} image{'' if images == 1 else 's'}"


def walk(folder: Path, within: Within = ANYWHERE) -> Iterator[tuple[Path, str | None, bool]]:
    """Yields (path, why it is refused or None, whether it may be an image) in a stable order, without hidden files.

    Links to folders are followed, each folder once; a link that leads outside `within` is refused as a whole.
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
    """Yields every file that may be an image, in a stable order. Hidden files and known documents are skipped."""
    return (path for path, _, may_be_image in walk(folder) if may_be_image)


class Entries(Sized, Iterable[Entry]):
    """The entries that a layout finds in a folder; each iteration searches again, so that none stays in memory."""

    def __init__(self, find: Callable[[], Iterator[Entry]]):
        self._find = find
        self._count: int | None = None

    def __iter__(self) -> Iterator[Entry]:
        return self._find()

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(1 for _ in self._find())
        return self._count

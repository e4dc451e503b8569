"""What a layout finds: the entries of files, groups of them, and the files of a folder one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path

from core.studio.ingest.roots import Within

OUTSIDE = "it lies, or leads by a link, outside of the folders that may be imported from"
ANSWERS = ("normal", "abnormal", "out")
SAMPLES = 6  # images of a group that are shown
_NOT_IMAGES = frozenset(
    f".{suffix}" for suffix in (
        "csv", "doc", "docx", "html", "ini", "ipynb", "json", "log", "md", "ods", "pdf", "py", "sqlite", "tsv", "txt",
        "xls", "xlsx", "xml", "yaml", "yml", "zip",
    )
)  # fmt: skip
ANYWHERE = Within(None)
_NOISE = {"thumbs.db", "desktop.ini", "dicomdir", "license", "readme", "licence"}


class BadFolder(ValueError):
    """A folder that no layout fits; the message says what was looked for."""


@dataclass(frozen=True)
class Entry:
    """One file as its layout understands it. `problem` is set when the layout already knows what is wrong.

    masks: those of its lesions. patient: whose image it is, where the layout says so. group: what says its class;
    doubt: why that does not say it, for a person to answer.
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
    """Images of which the same is concluded, or asked.

    meaning: as "train normal", "" if it is asked; why: the doubt; samples: the first few.
    """

    name: str
    meaning: str
    images: int = 0
    masks: int = 0
    why: str | None = None
    samples: list[Path] = field(default_factory=list)


class Question(ValueError):
    """The error that an import needs a person's answer; nothing is stored.

    layout: what the folder was read as; groups: what was understood of it, and what is asked about; erased: how many
    of its files were erased from this home.
    """

    def __init__(self, message: str, layout: str = "", groups: Sequence[Group] = (), erased: int = 0) -> None:
        self.layout, self.groups, self.erased = layout, groups, erased
        super().__init__(message)


class Unclear(BadFolder, Question):
    """The error that a folder does not say which of its images are normal."""

    def __init__(self, layout: str, groups: list[Group]) -> None:
        asked = [g for g in groups if not g.meaning]
        listed = "; ".join(f"{g.name}: {_count(g.images)}, {g.why}" for g in asked[:8])
        more = f"; and {len(asked) - 8} more groups" if len(asked) > 8 else ""
        text = f"Nothing was stored, because it is not clear which images are normal: {listed}{more}"
        super().__init__(text, layout, groups)


def _count(images: int) -> str:
    return f"{images:,} image{'' if images == 1 else 's'}"


def walk(folder: Path, within: Within = ANYWHERE) -> Iterator[tuple[Path, str | None, bool]]:
    """Yields (file, why it is refused, whether it may be an image) in a steady order, hidden ones skipped.

    Links to folders are followed, each folder once; one that leads outside of `within` is refused as a whole.
    """
    walked = {os.path.realpath(folder)}
    for here, folders, names in os.walk(folder, followlinks=True):
        inside = []
        for name in sorted(f for f in folders if not f.startswith(".")):
            place = Path(here, name)
            if not place.is_symlink():
                inside.append(name)
            elif not within.holds(place):
                yield place, OUTSIDE, False
            elif (real := os.path.realpath(place)) not in walked:
                walked.add(real)
                inside.append(name)
        folders[:] = inside
        for name in sorted(names):
            if not name.startswith(".") and name.lower() not in _NOISE:
                yield Path(here, name), None, os.path.splitext(name)[1].lower() not in _NOT_IMAGES


def files_under(folder: Path) -> Iterator[Path]:
    """Lists every file that may be an image, in a steady order. Hidden files and known documents are skipped."""
    return (path for path, _, may_be_image in walk(folder) if may_be_image)


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

"""What a folder or a table means: which of its files are images, of which split and class, and which are their masks.

`folders` reads the names of folders, `table` reads tables; what neither understands is asked about (`Unclear`), so that
nothing is learnt as normal because its layout was not known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
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


class Unclear(BadFolder):
    """The error that a folder does not say which of its images are normal: it is asked about, nothing is stored.

    groups: what was understood and what is asked about; layout: what the folder was read as.
    """

    def __init__(self, layout: str, groups: list[Group]) -> None:
        self.layout, self.groups = layout, groups
        asked = [g for g in groups if not g.meaning]
        listed = "; ".join(f"{g.name}: {_count(g.images)}, {g.why}" for g in asked[:8])
        more = f"; and {len(asked) - 8} more groups" if len(asked) > 8 else ""
        super().__init__(f"Nothing was stored, because it is not clear which images are normal: {listed}{more}")


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


def confined(entries: Iterable[Entry], within: Within) -> Iterator[Entry]:
    """Yields the entries; one whose image or mask lies outside of `within` as a problem, a link that leads out once."""
    refused = set()
    for entry in entries:
        outside = next((path for path in (entry.path, *entry.masks) if not within.holds(path)), None)
        if outside is None:
            yield entry
        elif outside != entry.path:
            yield Entry(entry.path, problem=f"its mask cannot be read: {OUTSIDE}")
        elif (place := within.refused(outside)) not in refused:
            refused.add(place)
            yield Entry(place, problem=OUTSIDE)


def read_layout(
    folder: Path, layout: str | None = None, within: Within = ANYWHERE, answers: Mapping[str, str] | None = None
) -> tuple[str, Entries]:
    """Returns the name of a layout and the entries of a folder or a table.

    layout: `table`, `flat` (all images are normal) or one of `folders.LAYOUTS`; found by looking if it is not given.
    within: where each image and mask must lie, links followed; what lies elsewhere is an entry with a problem.
    answers: group -> normal, abnormal or out, for what the names do not say.

    Raises BadFolder if the folder is missing or empty, or the layout or an answer is unknown.
    """
    from core.studio.ingest.layouts import folders, table

    if layout not in (None, "table", "flat", *folders.LAYOUTS):
        raise BadFolder(f"there is no layout {layout!r}; there are: table, flat, {', '.join(folders.LAYOUTS)}")
    answers = answers or {}
    for group, answer in answers.items():
        if answer not in ANSWERS:
            raise BadFolder(f"{group} is {' or '.join(ANSWERS)}, not {answer!r}")
    for file in [folder] if folder.is_file() else sorted(folder.glob("*.[ct]sv")):
        if not within.holds(file):
            raise BadFolder(f"{file.name}: {OUTSIDE}")
    if not folder.exists():
        raise BadFolder(f"there is no folder {folder}")

    def found(name: str, find: Callable[[], Iterable[Entry]]) -> tuple[str, Entries]:
        entries = Entries(lambda: confined(find(), within))
        if not len(entries):
            known = "; or ".join(title for title, _ in folders.LAYOUTS.values())
            raise BadFolder(
                f"no images found in {folder}: expected {known}; or a folder of normal images; or a table with columns "
                "path, split, label, mask"
            )
        return name, entries

    if folder.is_dir() and layout == "flat":
        files = [Entry(path, problem=problem) for path, problem, image in walk(folder, within) if problem or image]
        return found("flat", lambda: files)
    tables = table.tables_of(folder, within) if layout in (None, "table") else None
    if tables and layout == "table" and not tables.known:
        why = "; ".join(f"{entry.path.name}: {entry.problem}" for entry in tables.problems[:3])
        raise BadFolder(f"{folder} holds no table that names images" + (f" ({why})" if why else ""))
    if tables and (folder.is_file() or layout == "table"):
        return found("table", lambda: tables.entries(answers))
    tree = folders.Tree(folder, within)
    by_folders = tree.entries(answers)
    by_table = tables and (tables.labelled or not tree.says or any(entry.doubt for entry in by_folders))
    if tables and tables.known and by_table:
        return found("table", lambda: tables.entries(answers))
    beside = tables.problems if tables and tree.says else []
    return found(tree.layout(), lambda: [*by_folders, *beside])


def conclude(layout: str, entries: Iterable[Entry], answers: Mapping[str, str] | None = None) -> list[Group]:
    """Returns what was understood of a folder, group by group. Raises Unclear if a person has to say more."""
    groups: dict[tuple[str, str], Group] = {}
    for entry in entries:
        meaning = "" if entry.doubt else "left out" if entry.problem else f"{entry.split} {entry.label}"
        group = groups.setdefault((entry.group, meaning), Group(entry.group, meaning, why=entry.doubt or entry.problem))
        group.images += 1
        group.masks += bool(entry.masks)
        if len(group.samples) < SAMPLES:
            group.samples.append(entry.path)
    listed = sorted(groups.values(), key=lambda g: (bool(g.meaning), g.meaning == "left out", g.name))
    if unknown := set(answers or ()) - {g.name for g in listed}:
        raise BadFolder(
            f"there is no group {', '.join(sorted(unknown))}; there are: {', '.join({g.name for g in listed})}"
        )
    if any(not g.meaning for g in listed):
        raise Unclear(layout, listed)
    return listed

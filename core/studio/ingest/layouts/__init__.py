"""Interprets a folder or a table: finds the images, their splits and classes, and their lesion masks.

`folders` interprets the names of folders, and `table` interprets tables. If names are unclear, a person is asked
(`Unclear`), so that abnormal images are not used as normal training images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from core.studio.ingest.layouts import folders, table
from core.studio.ingest.layouts.entries import (
    ANSWERS,
    ANYWHERE,
    OUTSIDE,
    SAMPLES,
    BadFolder,
    Entries,
    Entry,
    Group,
    Question,
    Unclear,
    files_under,
    walk,
)
from core.studio.ingest.roots import Within

__all__ = [
    "ANSWERS", "ANYWHERE", "OUTSIDE", "BadFolder", "Entries", "Entry", "Group", "Question", "Unclear", "conclude",
    "confined", "demand_plain", "files_under", "read_layout",
]  # fmt: skip

PLAIN = ("flat", "plain")  # layouts whose folders need no interpretation


def demand_plain(layout: str, groups: list[Group]) -> None:
    """Raises Question to have a user confirm the groups, unless `layout` is in PLAIN and no group is skipped."""
    if layout not in PLAIN or any(group.meaning == "left out" for group in groups):
        raise Question("Nothing was stored; first confirm how the folder is interpreted.", layout, groups)


def confined(entries: Iterable[Entry], within: Within) -> Iterator[Entry]:
    """Yields the entries, but replaces an entry with an image or mask outside `within` by one with a `problem`."""
    refused = set()
    for entry in entries:
        outside = next((path for path in (entry.path, *entry.masks) if not within.holds(path)), None)
        if outside is None:
            yield entry
        elif outside != entry.path:
            yield Entry(entry.path, problem=f"its mask cannot be read: {OUTSIDE}")
        elif (refused_path := within.refused(outside)) not in refused:
            refused.add(refused_path)
            yield Entry(refused_path, problem=OUTSIDE)


def read_layout(
    folder: Path, layout: str | None = None, within: Within = ANYWHERE, answers: Mapping[str, str] | None = None
) -> tuple[str, Entries]:
    """Reads a folder or a table; returns (name of the layout, entries).

    layout: "table", "flat" (all images are normal) or a key of `folders.LAYOUTS`. By default, the layout is detected.
    within: Folders in which each image and mask must lie after links are resolved. Other entries get a `problem`.
    answers: Class ("normal", "abnormal" or "out") that a person has chosen for each group with an unclear name.

    Raises BadFolder if the folder is missing or contains no images, or if the layout or an answer is unknown.
    """
    if layout not in (None, "table", "flat", *folders.LAYOUTS):
        raise BadFolder(f"unknown layout {layout!r}; choose from: table, flat, {', '.join(folders.LAYOUTS)}")
    answers = answers or {}
    for group, answer in answers.items():
        if answer not in ANSWERS:
            raise BadFolder(f"{group} is {' or '.join(ANSWERS)}, not {answer!r}")
    for file in [folder] if folder.is_file() else sorted(folder.glob("*.[ct]sv")):
        if not within.holds(file):
            raise BadFolder(f"{file.name}: {OUTSIDE}")
    if not folder.exists():
        raise BadFolder(f"the folder {folder} does not exist")

    def found(name: str, find: Callable[[], Iterable[Entry]]) -> tuple[str, Entries]:
        entries = Entries(lambda: confined(find(), within))
        if not len(entries):
            forms = "; or ".join(title for title, _ in folders.LAYOUTS.values())
            raise BadFolder(
                f"no images found in {folder}: expected {forms}; or a folder of normal images; or a table with columns "
                "path, split, label, mask"
            )
        return name, entries

    if folder.is_dir() and layout == "flat":
        files = [Entry(path, problem=problem) for path, problem, image in walk(folder, within) if problem or image]
        return found("flat", lambda: files)
    tables = table.tables_of(folder, within) if layout in (None, "table") else None
    if tables and layout == "table" and not tables.known:
        why = "; ".join(f"{entry.path.name}: {entry.problem}" for entry in tables.problems[:3])
        raise BadFolder(f"{folder} contains no table that lists images" + (f" ({why})" if why else ""))
    if tables and (folder.is_file() or layout == "table"):
        return found("table", lambda: tables.entries(answers))
    tree = folders.Tree(folder, within)
    by_folders = tree.entries(answers)
    by_table = tables and (tables.labelled or not tree.says or any(entry.doubt for entry in by_folders))
    if tables and tables.known and by_table:
        return found("table", lambda: tables.entries(answers))
    table_problems = tables.problems if tables and tree.says else []
    return found(tree.layout(), lambda: [*by_folders, *table_problems])


def conclude(layout: str, entries: Iterable[Entry], answers: Mapping[str, str] | None = None) -> list[Group]:
    """Groups the entries by folder or label, and by class. Raises Unclear if a person must decide a group's class."""
    groups: dict[tuple[str, str], Group] = {}
    for entry in entries:
        meaning = "" if entry.doubt else "left out" if entry.problem else f"{entry.split} {entry.label}"
        group = groups.setdefault((entry.group, meaning), Group(entry.group, meaning, why=entry.doubt or entry.problem))
        group.images += 1
        group.masks += bool(entry.masks)
        if len(group.samples) < SAMPLES and not entry.problem:  # files outside the allowed folders are not shown
            group.samples.append(entry.path)
    listed = sorted(groups.values(), key=lambda g: (bool(g.meaning), g.meaning == "left out", g.name))
    if unknown := set(answers or ()) - {g.name for g in listed}:
        raise BadFolder(
            f"unknown group {', '.join(sorted(unknown))}; choose from: {', '.join({g.name for g in listed})}"
        )
    if any(not g.meaning for g in listed):
        raise Unclear(layout, listed)
    return listed

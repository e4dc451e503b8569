"""Reads tables that list images in the columns path, split, label, mask and patient, of which only path is required.

Paths are relative to the folder of the table, or match files in that folder by name (see `names.PathIndex`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from core.studio.ingest.layouts.entries import BadFolder, Entry, files_under
from core.studio.ingest.layouts.folders import TABLES, place_of
from core.studio.ingest.layouts.words import SUGGESTS, abnormal_word, meaning
from core.studio.ingest.names import PathIndex, stem
from core.studio.ingest.patients import TABLE as PATIENTS
from core.studio.ingest.roots import Within
from core.studio.ingest.tables import BadTable, Table, open_table

LONGEST_PATH = 4096
_TEXTS = (".csv", ".tsv", ".txt")
_TRUE, _FALSE = {"true", "yes"}, {"false", "no"}


class Tables:
    """Tables of a folder, or one table. `known`: tables that list images; `problems`: an entry for each other table."""

    def __init__(self, place: Path, within: Within) -> None:
        self.folder, named = (place.parent, [place]) if place.is_file() else (place, None)
        self.known, self.problems = list[Table](), list[Entry]()
        self._within, self._whole = within, named is None
        for file in named or sorted(p for p in place.iterdir() if p.suffix.lower() in (*TABLES, ".txt")):
            if file.name.startswith(".") or not file.is_file() or (file.name.lower() == PATIENTS and named is None):
                continue
            if file.suffix.lower() not in _TEXTS:
                self.problems.append(Entry(file, problem="a table of an unsupported format; save it as CSV"))
                continue
            try:
                table = open_table(file, self._is_file)
            except (BadTable, OSError) as error:
                self.problems.append(
                    Entry(file, problem=str(error) if isinstance(error, BadTable) else "cannot be read")
                )
                continue
            if "path" in table.columns and (file.suffix.lower() != ".txt" or len(table.columns) > 1):
                self.known.append(table)
            elif file.suffix.lower() != ".txt":
                columns = ", ".join(table.other[:8]) or "nothing"
                self.problems.append(Entry(file, problem=f"a table of {columns}, without a column of image files"))

    @property
    def labelled(self) -> bool:
        """Whether any of the tables has a label column, which states which images are normal."""
        return any("label" in table.columns for table in self.known)

    @functools.cached_property
    def _files(self) -> PathIndex[Path]:
        files = (f for f in files_under(self.folder) if self._within.holds(f))
        return PathIndex((f.relative_to(self.folder).as_posix(), f) for f in files)

    def _is_file(self, text: str) -> bool:
        return bool(text) and len(text) < LONGEST_PATH and "\0" not in text and isinstance(self._found(text), Path)

    def _found(self, text: str) -> Path | list[Path]:
        """Returns the file to which a path refers, or a list of all matching files if there is not exactly one."""
        path = self.folder / text.replace("\\", "/")
        if not self._within.holds(path):
            return path
        try:
            if path.is_file():
                return path
        except OSError:  # a name that is too long for the system
            return []
        files = self._files.find(text)
        return files[0] if len(files) == 1 else files

    def entries(self, answers: Mapping[str, str]) -> Iterator[Entry]:
        """Yields an entry for each row, then entries with a `problem`. For `answers`, see `Tree.entries`."""
        named = set[Path]()
        for table in self.known:
            texts = {row.get("label", "") for _, row in table.rows()}
            numbers = {n for text in texts if (n := _number(text)) is not None}
            labels = {text: _label(text, numbers) for text in texts}
            if "normal" in labels.values():
                labels = {text: "abnormal" if label == "other" else label for text, label in labels.items()}
            for number, row in table.rows():
                entry = self._entry(table, row, number, labels, answers)
                named |= {entry.path, *entry.masks}
                yield entry
        unnamed = [path for path in files_under(self.folder) if path not in named] if self._whole else []
        if unnamed:
            yield Entry(unnamed[0], problem=f"no table lists this file and {len(unnamed) - 1} others of the folder")
        yield from self.problems

    def _entry(
        self, table: Table, row: dict[str, str], number: int, labels: dict[str, str], answers: Mapping[str, str]
    ) -> Entry:
        line = f"line {number}" + (f" of {table.file.name}" if len(self.known) > 1 else "")
        text = row.get("path", "")
        if not text:
            return Entry(table.file, problem=f"{line} has no path")
        if len(text) > LONGEST_PATH or "\0" in text:
            return Entry(table.file, problem=f"{line} has an invalid path")
        path = self._found(text)
        if isinstance(path, list):
            several, path = path, self.folder / text.replace("\\", "/")
            if several:
                fits = ", ".join(file.relative_to(self.folder).as_posix() for file in several[:3])
                return Entry(path, problem=f"{line}: this name fits several files: {fits}")
        folders = path.relative_to(self.folder).parts[:-1] if path.is_relative_to(self.folder) else ()
        clues = place_of(folders)
        split_text = row.get("split") or (stem(table.file.name) if meaning(stem(table.file.name)).split else "")
        split = meaning(split_text).split if split_text else clues.split
        if split_text and split is None:
            return Entry(path, problem=f"{line}: split {split_text!r} is not train, holdout or test")
        value, doubt = row.get("label", ""), None
        group = f"label {value or '(empty)'}" if "label" in table.columns else clues.group
        if value:
            label = labels[value]
            doubt = "the meaning of this label is unknown" if label in ("other", "doubt") else None
        else:
            label, doubt = self._without_label(table, path, clues.label, split, bool(row.get("mask")))
        if group in answers:
            label, doubt = answers[group], None
        if label == "out":
            return Entry(path, problem="left out on request")
        if doubt is None and split_text and split != "test" and label != "normal":
            return Entry(path, problem=f"{line}: only normal images can be in {split}, but this one is {label}")
        split = split or "train" if label == "normal" or doubt else "test"
        mask = self._found(row["mask"]) if row.get("mask") else None
        masks = () if mask is None else (mask if isinstance(mask, Path) else self.folder / row["mask"],)
        kind = value and label == "abnormal" and not meaning(value).generic and _number(value) is None
        tags = (value,) if kind else ()
        return Entry(path, split, label, masks, tags, None, row.get("patient") or None, group, doubt)

    def _without_label(
        self, table: Table, path: Path, folder_label: str | None, split: str | None, mask: bool
    ) -> tuple[str, str | None]:
        """Returns (label of an image by folder, mask or split, reason to ask a person about the label or None)."""
        if folder_label in ("normal", "abnormal", "unknown"):
            return folder_label, None
        if mask:
            return "abnormal", None
        if split == "test":
            return "unknown", None
        if folder_label:
            return "", "the table has no label, and the meaning of the folder is unknown"
        if "label" in table.columns:
            return "", "the label is empty"
        if table.other:
            return "", f"{table.file.name} has no column of labels, but {', '.join(table.other[:8])}"
        return "normal", SUGGESTS if abnormal_word(stem(path.name)) else None


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return None


def _label(text: str, numbers: set[float]) -> str:
    """Returns "normal", "abnormal", "unknown", "other" or "doubt" for a label, given all `numbers` of the column."""
    if (number := _number(text)) is not None:  # 0 means normal only if all numbers are 0 or 1
        return "doubt" if numbers - {0, 1} else "abnormal" if number else "normal"
    if text == "?":
        return "unknown"
    label = meaning(text).label
    return "doubt" if text.lower() in _TRUE | _FALSE or label == "mask" else label or "other"


def tables_of(place: Path, within: Within) -> Tables:
    """Reads the tables of a folder, or a single table. Raises BadFolder if a single table does not list images."""
    tables = Tables(place, within)
    if place.is_file() and not tables.known:
        raise BadFolder(
            f"{place.name}: {tables.problems[0].problem}" if tables.problems else f"{place.name} is not a table"
        )
    return tables

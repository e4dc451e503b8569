"""Reads tables of images, and detects their separators, encodings and columns.

A column is recognised by its heading, regardless of case and punctuation (`Image Path`, `file_name`). The column of
image files is also recognised if its cells are names of files.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from core.studio.ingest.names import folded

COLUMNS = {  # role of a column: possible headings, the most specific first
    "path": "path imagepath filepath filename imagefilename imagefile file image images imagename imageindex imageid "
    "img imgpath imgname imgid picture name id datei dateiname bild fichier archivo",
    "split": "split subset partition set usage phase splitset fold",
    "label": "label labels class classname target diagnosis category finding findings findinglabels condition disease "
    "status",
    "mask": "mask maskpath maskfile maskfilename maskname segmentation segmentationpath seg groundtruth gt",
    "patient": "patient patientid patientname examination subject subjectid",
}
_ROLES = {head: (role, rank) for role, heads in COLUMNS.items() for rank, head in enumerate(heads.split())}
_LEGACY = ("cp1252", "cp1250", "cp1251", "gb18030", "shift_jis", "euc_kr", "cp850", "cp437", "mac_roman")
_SAMPLE = 50  # rows that are examined


class BadTable(ValueError):
    """Raised if a table cannot be read. The message states the reason."""


@dataclass(frozen=True)
class Table:
    """Table file with the roles of its columns (keys of COLUMNS)."""

    file: Path
    encoding: str
    separator: str
    columns: dict[str, int]  # index of the column of each role (key of COLUMNS)
    other: list[str] = field(default_factory=list)  # headings of the columns without a role
    first: int = 2  # number of the line with the first row

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yields (line number, {role: text}) for each row that is not blank. Raises BadTable if a row is unreadable."""
        number = 1
        try:
            with self.file.open(newline="", encoding=self.encoding) as lines:
                for number, cells in enumerate(csv.reader(lines, delimiter=self.separator), 1):
                    if number >= self.first and any(cell.strip() for cell in cells):
                        yield number, {r: cells[i].strip() for r, i in self.columns.items() if i < len(cells)}
        except (csv.Error, UnicodeError) as error:
            raise _broken(self.file, number, error) from None


def open_table(file: Path, is_file: Callable[[str], bool]) -> Table:
    """Opens a table and detects its encoding, separator and columns.

    `is_file(text)` returns whether a text names a file of the study. Raises BadTable if the table cannot be read.
    """
    for encoding in _encodings(file):
        read = [_read(file, encoding, separator, is_file) for separator in ",;\t|"]
        best = max(read, key=lambda table: (len(table.columns), len(table.other)))
        if encoding not in _LEGACY or ("path" in best.columns and _odd_names_agree(best, is_file)):
            return best
    raise BadTable(f"{file.name} has an unknown encoding; save it as UTF-8")


def _encodings(file: Path) -> list[str]:
    """Returns the encodings to try: UTF-16 if its mark or zero bytes occur, UTF-8 if it is valid, else _LEGACY."""
    with file.open("rb") as opened:
        start = opened.read(4096)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ["utf-16"]
    if start[1:20:2].count(0) > 4:
        return ["utf-16-le"]
    try:
        with file.open(encoding="utf-8-sig") as text:
            while text.read(1 << 20):
                pass
        return ["utf-8-sig"]
    except UnicodeDecodeError:
        return list(_LEGACY)


def _read(file: Path, encoding: str, separator: str, is_file: Callable[[str], bool]) -> Table:
    """Reads the columns of a table from its first lines. Raises BadTable if the lines are not valid CSV."""
    lines: list[list[str]] = []
    try:
        with file.open(newline="", encoding=encoding) as text:
            for cells in csv.reader(text, delimiter=separator):
                lines.append([cell.strip() for cell in cells])
                if len(lines) > _SAMPLE:
                    break
    except UnicodeError:
        return Table(file, encoding, separator, {})
    except csv.Error as error:
        raise _broken(file, len(lines), error) from None
    head = next((n for n, cells in enumerate(lines) if any(cells) and not re.fullmatch("sep=.?", "".join(cells))), 0)
    if head >= len(lines):
        return Table(file, encoding, separator, {})
    roles: dict[str, tuple[int, int]] = {}
    for position, cell in enumerate(lines[head]):
        role, rank = _ROLES.get(re.sub(r"[\W_]+", "", folded(cell)), ("", 0))
        if role and rank < roles.get(role, (len(_ROLES), 0))[0]:
            roles[role] = rank, position
    columns = {role: position for role, (_, position) in roles.items()}
    body, first = lines[head + 1 :], head + 2
    if "path" not in columns:
        named = [sum(is_file(row[i]) for row in body if i < len(row)) for i in range(len(lines[head]))]
        if named and max(named) > 0.8 * len(body):
            columns["path"] = named.index(max(named))
            first -= is_file(lines[head][columns["path"]])
    other = [cell for i, cell in enumerate(lines[head]) if i not in columns.values() and cell]
    return Table(file, encoding, separator, columns, other, first)


def _odd_names_agree(table: Table, is_file: Callable[[str], bool]) -> bool:
    """Returns whether most names that are not ASCII are names of files when decoded with the table's encoding."""
    try:
        names = (row.get("path", "") for _, row in table.rows())
        odd = [name for name in names if not name.isascii()][:_SAMPLE]
    except BadTable:
        return False
    return not odd or sum(map(is_file, odd)) > len(odd) / 2


def _broken(file: Path, number: int, error: Exception) -> BadTable:
    why = "a cell is too long" if "field limit" in str(error) else "it is cut short or not text"
    return BadTable(f"{file.name} is not a readable table after line {number}: {why}")

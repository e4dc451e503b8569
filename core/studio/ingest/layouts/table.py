"""A CSV of path, split, label, mask, patient (all but path may be missing); paths are relative to the CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from core.studio.ingest.layouts import BadFolder, Entry
from core.studio.ingest.patients import COLUMNS

LONGEST_PATH = 4096
TITLE = "a CSV of path, split, label, mask"
_SPLITS = {"": "train", "train": "train", "training": "train", "holdout": "holdout", "val": "holdout"}
_SPLITS |= {"validation": "holdout", "test": "test"}
_LABELS = {"normal": "normal", "good": "normal", "0": "normal", "abnormal": "abnormal", "1": "abnormal"}
_LABELS |= {"anomaly": "abnormal", "lesion": "abnormal", "unknown": "unknown", "?": "unknown"}


def _table(folder: Path) -> Path | None:
    if folder.is_file():
        return folder if folder.suffix.lower() == ".csv" else None
    tables = [p for p in sorted(folder.glob("*.csv")) if "path" in _columns(p)]
    return tables[0] if len(tables) == 1 else None


def _columns(file: Path) -> list[str]:
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            return [c.strip().lower() for c in next(csv.reader(lines), [])]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def fits(folder: Path) -> bool:
    return _table(folder) is not None


def entries(folder: Path) -> Iterator[Entry]:
    file = _table(folder)
    if file is None or "path" not in _columns(file):
        raise BadFolder(f"{folder} has no CSV with a column named path (and split, label, mask)")
    number = 1
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            for number, row in enumerate(csv.DictReader(lines), start=2):
                row = {(k or "").strip().lower(): (v or "") for k, v in row.items() if isinstance(v, str) or v is None}
                yield _entry(file.parent, row, number)
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadFolder(f"{file.name} is no table that can be read, after line {number}: {error}") from None


def _entry(root: Path, row: dict[str, str], number: int) -> Entry:
    if not row.get("path"):
        return Entry(root, problem=f"line {number} of the CSV has no path")
    if len(row["path"]) > LONGEST_PATH or "\0" in row["path"]:
        return Entry(root, problem=f"line {number} of the CSV has a path that no file can have")
    path = root / row["path"]
    split = _SPLITS.get(row.get("split", "").strip().lower())
    label_text = row.get("label", "").strip().lower()
    label = _LABELS.get(label_text) if label_text else ("unknown" if split == "test" else "normal")
    if split is None:
        return Entry(path, problem=f"line {number}: split {row['split']!r} is not train, holdout or test")
    if label is None:
        return Entry(path, problem=f"line {number}: label {row['label']!r} is not normal, abnormal or unknown")
    if split != "test" and label != "normal":
        return Entry(path, problem=f"line {number}: only normal images can be in {split}, this one is {label}")
    mask = row.get("mask", "").strip()
    patient = next((row[c] for c in COLUMNS if row.get(c, "").strip()), None)
    return Entry(path, split, label, root / mask if mask else None, patient=patient)

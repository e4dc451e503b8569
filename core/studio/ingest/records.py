"""Names, lists and deletes studies, and returns the displayed names of cases."""

from __future__ import annotations

import hashlib
import re
import shutil
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.studio.db.store import NotFound, Store, parsed

_SETTINGS = ("adopted", "blind", "deidentify", "import", "kind", "labels", "scored", "tags")  # of a study, NAME:STUDY
LONGEST = 60  # maximum characters of a study's id
_UNNAMED = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|[0-9a-f]{24,}|\d+(?:\.\d+){6,}", re.I)


def name_shown(case: Mapping) -> str:
    """Returns a case's name for display: "Case" and the case's id if the stored name is a UUID, hash or DICOM UID."""
    stem, sign, frame = case["name"].partition(" #")
    if not _UNNAMED.fullmatch(Path(stem).stem) and not _UNNAMED.fullmatch(stem):
        return case["name"]
    return f"Case {case['id']}" + (f" #{frame}" if sign else "")


def named(row: Mapping) -> dict[str, Any]:
    """Returns the row of a case with its displayed name and without the column `added`."""
    return {key: value for key, value in {**row, "name": name_shown(row)}.items() if key != "added"}


def pictured(store: Store, where: str, *values: Any) -> dict[str, Any] | None:
    """Returns a case that matches the SQL condition `where` with parameters `values`, or None if no case matches.

    The keys are "id", "name", "width", "height", "bits" and "v", which is the start of the SHA-256 of the file.
    """
    case = store.one(f"SELECT id, name, added, sha256, width, height, bits FROM cases WHERE {where}", values)
    if case is None:
        return None
    mark = (case.pop("sha256") or "")[:10]
    return {**named(case), "v": mark}


def slug(name: str) -> str:
    """Derives the id of a study from its name ('my-colon-study' from 'My Colon study'), ignoring case and spacing.

    If the name is long or has characters that an id cannot contain, the id ends with a hash of the name, such as
    'study-3f0b1c9a', so that ids differ. Raises ValueError if the name has no letter or digit.
    """
    normalised = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    parted = unicodedata.normalize("NFKD", normalised)
    if not any(unicodedata.category(c)[0] in "LNS" for c in parted):
        raise ValueError(f"a study's name needs a letter or a digit; {name!r} has none")
    plain = re.sub(r"[^a-z0-9]+", "-", parted.encode("ascii", "ignore").decode()).strip("-")
    lost = any(unicodedata.category(c)[0] in "LNS" for c in parted if not c.isascii() or c in "+<=>|~^`$")
    if not lost and len(plain) <= LONGEST:
        return plain
    return f"{plain[: LONGEST - 9].strip('-') or 'study'}-{hashlib.sha256(normalised.encode()).hexdigest()[:8]}"


def list_studies(store: Store) -> list[dict]:
    """Returns the studies that are not in the bin, in the order of their creation.

    Each row also has "cases" (their number), "masks" (number of cases with masks) and "counts" (by split and label).
    """
    rows = store.query("SELECT * FROM studies WHERE binned IS NULL ORDER BY created, id")
    return [_with_counts(store, row) for row in rows]


def study_row(store: Store, study: str) -> dict:
    """Returns the row of a study by its id. Raises NotFound if the study is unknown or in the bin."""
    row = store.one("SELECT * FROM studies WHERE id = ?", [study])
    if row is not None and row["binned"]:
        raise NotFound(f"the study {study!r} is in the bin: `bin restore study {study}` brings it back")
    if row is None:
        study_ids = ", ".join(r["id"] for r in store.query("SELECT id FROM studies WHERE binned IS NULL ORDER BY id"))
        raise NotFound(f"unknown study {study!r}; the studies are: {study_ids or 'none yet (`study import` adds one)'}")
    return row


def show_study(store: Store, study: str) -> dict:
    """Returns a study by its id or name, with the fields of `list_studies`. Raises NotFound as `study_row` does."""
    named = "SELECT id FROM studies WHERE id = ? OR name = ? OR name = ? ORDER BY id != ?"
    row = store.one(named, [study, study, unicodedata.normalize("NFC", study), study])
    return _with_counts(store, study_row(store, row["id"] if row else study))


def _with_counts(store: Store, row: dict) -> dict:
    counted = store.query(  # grouped in the order of an index, so that SQLite need not sort
        "SELECT split, label, count(*) AS n FROM cases WHERE study = ? GROUP BY split, label", [row["id"]]
    )
    counts = dict(sorted((f"{r['split']} {r['label']}", r["n"]) for r in counted))
    masks = store.first(
        "SELECT count(DISTINCT m.case_id) AS n FROM lesion_masks m JOIN cases c ON c.id = m.case_id WHERE c.study = ?",
        [row["id"]],
    )
    return {**parsed(row, "config"), "cases": sum(counts.values()), "masks": masks["n"], "counts": counts}


def holds_reviews(store: Store, study: str) -> None:
    """Raises ValueError if a study has reviews, findings or lesion masks drawn by readers."""
    counts = []
    for name, table, which in (
        ("reviews", "reviews", ""), ("findings", "findings", ""), ("drawn masks", "lesion_masks", "AND r.reader != ''")
    ):  # fmt: skip
        query = f"SELECT count(*) AS n FROM {table} r JOIN cases c ON c.id = r.case_id WHERE c.study = ? {which}"
        counts += [f"{n} {name}" for n in (store.first(query, [study])["n"],) if n]
    if counts:
        summary = " and ".join(counts)
        raise ValueError(f"{study} contains {summary} and cannot be deleted")


def demand_free_name(store: Store, study: str) -> None:
    """Raises ValueError if a study with the id `study` already exists, even in the bin."""
    row = store.one("SELECT binned FROM studies WHERE id = ?", [study])
    if row is not None:
        advice = ", in the bin: restore it, or empty the bin" if row["binned"] else "; choose another name"
        raise ValueError(f"there is already a study {study!r}{advice}")


def delete_study(store: Store, study: str) -> None:
    """Deletes a study with its runs, caches and copied files.

    Raises NotFound if the study is unknown, and ValueError if readers have reviewed or annotated it.
    """
    if store.one("SELECT 1 FROM studies WHERE id = ?", [study]) is None:
        study_row(store, study)
    holds_reviews(store, study)
    folders = [r["folder"] for r in store.query("SELECT folder FROM runs WHERE study = ?", [study])]
    with store.write() as db:
        db.execute("UPDATE runs SET parent = NULL WHERE study = ?", [study])
        db.execute("DELETE FROM studies WHERE id = ?", [study])
        db.conn.executemany("DELETE FROM settings WHERE key = ?", [[f"{name}:{study}"] for name in _SETTINGS])
    for folder in [store.home.path / f for f in folders] + [store.home.cache / study, store.home.files / study]:
        shutil.rmtree(folder, ignore_errors=True)


def newest_case(store: Store) -> int:
    """Returns the id of the newest case, or 0 if there are no cases."""
    return int((store.one("SELECT coalesce(max(id), 0) AS id FROM cases") or {"id": 0})["id"])


def first_after(store: Store, study: str, last: int) -> int | None:
    """Returns the id of the study's first case with an id above `last`, or None if there is no such case."""
    row = store.one("SELECT min(id) AS id FROM cases WHERE study = ? AND id > ?", [study, last])
    return row["id"] if row else None

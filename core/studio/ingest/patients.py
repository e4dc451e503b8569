"""Finds the patient of each image, so that images of one patient are held out, split and drawn together.

The patient (or the examination, if only that is known) is taken from `patients.csv` (columns name and patient), or else
from the file name, the table of the layout, or the PatientID in DICOM. Only a keyed hash of the patient is stored.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.ingest.names import PathIndex, folded
from core.studio.ingest.tables import open_table

TABLE = "patients.csv"
LONGEST = 200  # maximum characters of a pattern
UNKNOWN = (
    "Patients are unknown: held-out images may show patients of the training data. Then more images of new "
    "patients are flagged than promised, and unchanged images may seem changed."
)


class Patients:
    """Callable that returns the pseudonym of a file's patient.

    folder: Folder that may contain `patients.csv`, or None.
    pattern: Regular expression for file names. The patient is its first group, or the whole match if it has no groups.

    Raises ValueError if the pattern is invalid or `patients.csv` lacks a required column.
    """

    def __init__(self, store: Store, folder: Path | None = None, pattern: str | None = None) -> None:
        if pattern and len(pattern) > LONGEST:
            raise ValueError(f"a pattern for patients has at most {LONGEST} characters")
        try:
            self._pattern = re.compile(pattern) if pattern else None
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a valid regular expression: {error}") from None
        self._listed = listed(folder) if folder else lambda path: None
        self._key = audit.key(store, "patients")

    def __call__(self, path: Path, declared: str | None) -> str | None:
        """Returns the pseudonym or None. The `declared` patient is used if `patients.csv` and the pattern give none."""
        text = self._listed(path) or self._found(path.name) or declared
        text = (text or "").strip()
        return hmac.new(self._key, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:16] if text else None

    def _found(self, name: str) -> str | None:
        match = self._pattern.search(name) if self._pattern else None
        if match is None:
            return None
        return match.group(1) if match.re.groups else match.group(0)


def listed(folder: Path) -> Callable[[Path], str | None]:
    """Returns a function that looks up the patient of a file in the `patients.csv` of a folder.

    The function returns None if the table is missing, or if it lists no patient or several patients for the file. Names
    in the table may include parent folders. Raises ValueError if the table lacks a required column.
    """
    file = (folder if folder.is_dir() else folder.parent) / TABLE
    rows = PathIndex[tuple[str, str]](())
    if file.is_file():
        table = open_table(file, lambda _: False)
        if not {"path", "patient"} <= set(table.columns):
            raise ValueError(f"{TABLE} needs the columns name and patient")
        named = (row for _, row in table.rows() if row.get("path"))
        rows = PathIndex((row["path"], (row["path"], row.get("patient", ""))) for row in named)

    def whose(path: Path) -> str | None:
        above = f"/{folded(path.parent.as_posix())}"
        fits = {
            patient for name, patient in rows.find(path.as_posix())
            if above.endswith(folded(f"/{name}".rpartition("/")[0]))
        }  # fmt: skip
        return fits.pop() if len(fits) == 1 else None

    return whose


def straddling(cases: Sequence[dict]) -> list[dict]:
    """Returns the patients with images in both training and test, as [{"train": names, "test": names}].

    Each list contains the names of at most three cases. Held-out normals count as training images.
    """
    sides: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"train": [], "test": []})
    for case in cases:
        if case["patient"]:
            sides[case["patient"]]["test" if case["split"] == "test" else "train"].append(case["name"])
    return [{k: v[:3] for k, v in both.items()} for both in sides.values() if both["train"] and both["test"]]


def patients_of(store: Store, study: str, case_ids: np.ndarray) -> np.ndarray | None:
    """Returns a number for the patient of each case, int `(N,)`, or None if no case has a known patient.

    Each case without a known patient is treated as a different patient. Patients are numbered in the order of the
    cases, because hashes differ between homes, but a seed must draw the same patients in every home.
    """
    patient_of_case = {
        row["id"]: row["patient"]
        for row in store.query("SELECT id, patient FROM cases WHERE study = ? AND patient IS NOT NULL", [study])
    }
    if not any(int(i) in patient_of_case for i in case_ids):
        return None
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(patient_of_case.get(int(i), f"case {i}"), len(numbers)) for i in case_ids])

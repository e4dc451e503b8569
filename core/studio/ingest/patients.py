"""The patient of each image, so that images of one patient are held out, split and drawn together.

A patient (or an examination, if only that is known) comes from the layout's table, from a file `patients.csv` (columns
name, patient), from a pattern over file names, or from DICOM's PatientID. Only a keyed hash of it is kept; the key
stays in the home.
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
from core.studio.ingest.names import Register, folded
from core.studio.ingest.tables import open_table

TABLE = "patients.csv"
LONGEST = 200  # characters of a pattern
UNKNOWN = (
    "Patients are unknown: held-out images may be of patients in the training data, and then more images "
    "of new patients are flagged than promised, and images seem changed that are not."
)


class Patients:
    """Finds the pseudonym of a file's patient when called: `Patients(...)(path, declared)` -> str or None.

    pattern: a regular expression searched in the file's name; its first group, else the whole match, is the patient.
    folder: where `patients.csv` may lie. Raises ValueError for an invalid pattern or a table without a required column.
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
        """Returns the pseudonym. declared: the layout's or header's patient, used if table and pattern name none."""
        text = self._listed(path) or self._found(path.name) or declared
        text = (text or "").strip()
        return hmac.new(self._key, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:16] if text else None

    def _found(self, name: str) -> str | None:
        match = self._pattern.search(name) if self._pattern else None
        if match is None:
            return None
        return match.group(1) if match.re.groups else match.group(0)


def listed(folder: Path) -> Callable[[Path], str | None]:
    """Returns a function that looks up a file's patient in the folder's `patients.csv`.

    The function returns None if the table is missing, or names no patient or different patients for the file. Names in
    the table may include parent folders. Raises ValueError if the table lacks a required column.
    """
    file = (folder if folder.is_dir() else folder.parent) / TABLE
    rows = Register[tuple[str, str]](())
    if file.is_file():
        table = open_table(file, lambda _: False)
        if not {"path", "patient"} <= set(table.columns):
            raise ValueError(f"{TABLE} needs the columns name and patient")
        named = (row for _, row in table.rows() if row.get("path"))
        rows = Register((row["path"], (row["path"], row.get("patient", ""))) for row in named)

    def whose(path: Path) -> str | None:
        above = f"/{folded(path.parent.as_posix())}"
        fits = {
            patient for name, patient in rows.find(path.as_posix())
            if above.endswith(folded(f"/{name}".rpartition("/")[0]))
        }  # fmt: skip
        return fits.pop() if len(fits) == 1 else None

    return whose


def straddling(cases: Sequence[dict]) -> list[dict]:
    """Finds patients with images in both training and test: [{"train": names, "test": names}], up to three names each.

    cases: rows with name, split, patient. Held-out training normals count as training.
    """
    sides: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"train": [], "test": []})
    for case in cases:
        if case["patient"]:
            sides[case["patient"]]["test" if case["split"] == "test" else "train"].append(case["name"])
    return [{k: v[:3] for k, v in both.items()} for both in sides.values() if both["train"] and both["test"]]


def patients_of(store: Store, study: str, case_ids: np.ndarray) -> np.ndarray | None:
    """Returns patient numbers, int (N,), equal for cases of one patient; None if no case has a known patient.

    A case without a known patient gets a separate number. Numbers follow the order of cases, not the hashes, which
    differ from home to home, so that a seed draws the same patients in every home.
    """
    patient_of_case = {
        row["id"]: row["patient"]
        for row in store.query("SELECT id, patient FROM cases WHERE study = ? AND patient IS NOT NULL", [study])
    }
    if not any(int(i) in patient_of_case for i in case_ids):
        return None
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(patient_of_case.get(int(i), f"case {i}"), len(numbers)) for i in case_ids])

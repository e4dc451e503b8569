"""Volumes that come as one file per slice: which DICOM files belong together, in what order, and under what names.

Each slice is one case with one file. Its series and position are stored at import, so that slices that are added
later, by hand or through a watched folder, are sorted into the volume.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.studio.db.store import Store
from core.studio.ingest import dicom

# Views of one examination share a series and are numbered: four mammograms are not a volume.
STILLS = frozenset({"CR", "DX", "GM", "IO", "MG", "OP", "PX", "SM", "XC"})
FACING = "ImageOrientationPatient"
ORDER = "frame, place, slice, id"  # sort order of the cases of one recording or volume


@dataclass(frozen=True)
class Slice:
    """The position of one file in its volume.

    series: the same for all slices of one stack; the SeriesInstanceUID and a digest of what else they share.
    place: mm along the stack's normal, None if the file does not say. slice: its InstanceNumber, or None.
    """

    series: str
    place: float | None
    slice: int | None

    def to_row(self) -> dict:
        return {"series": self.series, "place": self.place, "slice": self.slice}


def slice_of(ds) -> Slice | None:
    """Reads a slice from a single-frame DICOM header; None without a series, or with neither position nor number.

    An image with a number but no position is not a slice if its modality takes single images (STILLS).

    A stack shares study, series, frame of reference, rows, columns and orientation (DICOM PS3.3, C.7.6.2), so the scout
    of a series is not among its slices.
    """
    series = dicom.text(ds, "SeriesInstanceUID")
    if not series or (dicom.whole(ds, "NumberOfFrames") or 1) > 1:
        return None
    position, axes = (np.array(dicom.numbers(ds, k, n)) for k, n in (("ImagePositionPatient", 3), (FACING, 6)))
    distance = None
    if len(position) and len(axes):
        normal = np.cross(axes[:3], axes[3:])
        length = float(np.linalg.norm(normal))
        if length > 0.5:  # unit vectors at a right angle give 1
            distance = round(float(position @ normal) / length, 3)
    number = dicom.whole(ds, "InstanceNumber")
    if distance is None and (number is None or dicom.text(ds, "Modality") in STILLS):
        return None
    # Directions are written with rounding errors that differ from slice to slice; adding 0 makes -0 a 0.
    facing = "" if distance is None else " ".join(f"{v:.2f}" for v in np.round(np.asarray(axes), 2) + 0.0)
    shared = (
        dicom.text(ds, "StudyInstanceUID"), dicom.text(ds, "FrameOfReferenceUID"), ds.Rows, ds.Columns, facing,
    )  # fmt: skip
    digest = hashlib.sha256("\n".join(map(str, shared)).encode()).hexdigest()[:12]
    return Slice(f"{series} {digest}", distance, number)


def in_order(files: list) -> list:
    """Sorts each volume's slices and moves them to the volume's first file in the list; other files keep their order.

    files: objects with a `row`, which may have the columns of `Slice.to_row`.
    """
    first: dict[str, int] = {}
    for i, f in enumerate(files):
        if f.row.get("series"):
            first.setdefault(f.row["series"], i)

    def key(at: tuple[int, Any]) -> tuple:
        i, row = at[0], at[1].row
        if not row.get("series"):
            return (i,)
        distance, number = row["place"], row["slice"]
        return first[row["series"]], distance or 0.0, -math.inf if number is None else number, i

    return [f for _, f in sorted(enumerate(files), key=key)]


def several(store: Store, study: str, series: Iterable[str | None]) -> set[str]:
    """Returns the series that have two or more slices, new ones included. series: the series of each new case, or None.

    If a series had one slice so far, that case is renamed with the number of the slice, like the new cases.
    """
    fresh: dict[str, int] = {}
    for uid in series:
        if uid:
            fresh[uid] = fresh.get(uid, 0) + 1
    multiple = set()
    for uid, count in fresh.items():
        existing = store.query("SELECT id, name, slice FROM cases WHERE study = ? AND series = ?", [study, uid])
        if count + len(existing) > 1:
            multiple.add(uid)
        if len(existing) == 1:
            name = numbered(existing[0]["name"], existing[0]["slice"])
            store.execute("UPDATE cases SET name = ? WHERE id = ?", [name, existing[0]["id"]])
    return multiple


def numbered(name: str, number: int | None) -> str:
    """Names a slice like a frame of a recording: 'a.dcm', 7 -> 'a.dcm #7'; without a number, just the name."""
    return name if number is None else f"{name} #{number}"


def same(case: dict) -> tuple[str, list]:
    """Returns SQL (condition, values) for all cases of the same recording or volume as this one."""
    if case["series"]:
        return "study = ? AND series = ?", [case["study"], case["series"]]
    return "study = ? AND path = ?", [case["study"], case["path"]]


def parts(store: Store, study: str) -> dict[int, int | None]:
    """Returns case id -> number of its frame (from 1) in a recording, or slice in a volume; other cases are omitted."""
    rows = store.query(
        "SELECT id, frame, series, slice FROM cases c WHERE study = :study AND ("
        "path IN (SELECT path FROM cases WHERE study = :study GROUP BY path HAVING count(*) > 1 OR max(frame) > 0) OR "
        "series IN (SELECT series FROM cases WHERE study = :study AND series IS NOT NULL GROUP BY series "
        "HAVING count(*) > 1))",
        {"study": study},
    )
    return {r["id"]: r["slice"] if r["series"] else r["frame"] + 1 for r in rows}

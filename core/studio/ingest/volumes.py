"""Groups DICOM files of one slice each into volumes, and sorts and names the slices.

Each slice is one case with its own file. The import stores the series and position of each slice, so that slices that
are added later, by hand or through a watched folder, are sorted into the volume.
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

# Modalities of single images. Views of an examination may share a series, but four mammograms are not a volume.
STILLS = frozenset({"CR", "DX", "GM", "IO", "MG", "OP", "PX", "SM", "XC"})
FACING = "ImageOrientationPatient"
ORDER = "frame, place, slice, id"  # sort order of the cases of one recording or volume


@dataclass(frozen=True)
class Slice:
    """Position of a DICOM file in its volume: `place` along the normal in mm, and `slice` (the InstanceNumber)."""

    series: str  # the SeriesInstanceUID, and a digest of other elements that all slices of the volume share
    place: float | None
    slice: int | None

    def to_row(self) -> dict:
        return {"series": self.series, "place": self.place, "slice": self.slice}


def slice_of(ds) -> Slice | None:
    """Returns the position of a DICOM image in its volume, or None if the image is not a slice.

    A slice has one frame, a series, and a position or (except for the modalities in STILLS) an instance number. All
    slices of a volume have the same study, series, frame of reference, rows, columns and orientation (DICOM PS3.3,
    C.7.6.2), so that the scout image of a series does not belong to the volume.
    """
    series = dicom.text(ds, "SeriesInstanceUID")
    if not series or (dicom.integer_of(ds, "NumberOfFrames") or 1) > 1:
        return None
    position, axes = (np.array(dicom.numbers(ds, k, n)) for k, n in (("ImagePositionPatient", 3), (FACING, 6)))
    distance = None
    if len(position) and len(axes):
        normal = np.cross(axes[:3], axes[3:])
        length = float(np.linalg.norm(normal))
        if length > 0.5:  # unit vectors at a right angle give 1
            distance = round(float(position @ normal) / length, 3)
    number = dicom.integer_of(ds, "InstanceNumber")
    if distance is None and (number is None or dicom.text(ds, "Modality") in STILLS):
        return None
    # The rounding errors of orientations differ between slices; adding 0.0 turns -0.0 into 0.0.
    facing = "" if distance is None else " ".join(f"{v:.2f}" for v in np.round(np.asarray(axes), 2) + 0.0)
    shared = (
        dicom.text(ds, "StudyInstanceUID"), dicom.text(ds, "FrameOfReferenceUID"), ds.Rows, ds.Columns, facing,
    )  # fmt: skip
    digest = hashlib.sha256("\n".join(map(str, shared)).encode()).hexdigest()[:12]
    return Slice(f"{series} {digest}", distance, number)


def in_order(files: list) -> list:
    """Returns the files, with the slices of each volume sorted and grouped at the place of the first one in the list.

    Other files keep their order. Each file has a `row`, which may contain the columns of `Slice.to_row`.
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


def multi_slice_series(store: Store, study: str, series: Iterable[str | None]) -> set[str]:
    """Returns which of the new cases' series have at least two slices, counting both existing and new cases.

    `series` contains the series of each new case, or None. If a series had only one slice before, the case of that
    slice is renamed to include the number of the slice.
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
    """Returns the name of a slice, such as 'a.dcm #7' for 'a.dcm' and 7, or the name alone if `number` is None."""
    return name if number is None else f"{name} #{number}"


def stack_condition(case: dict) -> tuple[str, list]:
    """Returns (SQL condition, its parameters) for all cases of the same recording or volume as `case`."""
    if case["series"]:
        return "study = ? AND series = ?", [case["study"], case["series"]]
    return "study = ? AND path = ?", [case["study"], case["path"]]


def parts(store: Store, study: str) -> dict[int, int | None]:
    """Returns {case id: frame number (from 1) or slice number} for all cases in recordings and volumes of a study."""
    rows = store.query(
        "SELECT id, frame, series, slice FROM cases c WHERE study = :study AND ("
        "path IN (SELECT path FROM cases WHERE study = :study GROUP BY path HAVING count(*) > 1 OR max(frame) > 0) OR "
        "series IN (SELECT series FROM cases WHERE study = :study AND series IS NOT NULL GROUP BY series "
        "HAVING count(*) > 1))",
        {"study": study},
    )
    return {r["id"]: r["slice"] if r["series"] else r["frame"] + 1 for r in rows}

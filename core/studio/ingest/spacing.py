"""The size of a pixel, if a DICOM file gives it: for lengths in millimetres."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from core.studio.ingest import dicom
from core.studio.ingest.unreadable import Unreadable

KEPT = 1024  # files whose answer is remembered


class Spacing(TypedDict):
    """The size of a pixel. x, y: millimetres between the centres of neighbouring pixels. at: `patient`, or `detector`
    if measured on a projection, which magnifies the patient."""

    x: float
    y: float
    at: str


def of_case(case: Mapping[str, Any]) -> Spacing | None:
    """Finds a case's spacing by its row (path, sha256); None if the file is not DICOM, has no spacing or is missing."""
    return _of(case["path"], case["sha256"])


@functools.lru_cache(maxsize=KEPT)
def _of(path: str, sha256: str | None) -> Spacing | None:
    """Finds a file's spacing. sha256: part of the cache key, because the file at that path may be replaced."""
    try:
        return of_header(dicom.header(Path(path))) if dicom.is_dicom(Path(path)) else None
    except (OSError, Unreadable):
        return None


def of_header(ds: Any) -> Spacing | None:
    """Reads PixelSpacing (PS3.3 10.7.1.1), the shared one of a multi-frame file included, else ImagerPixelSpacing."""
    groups = dicom.items(ds, "SharedFunctionalGroupsSequence")[:1]
    measures = next((item for group in groups for item in dicom.items(group, "PixelMeasuresSequence")), None)
    for source, name, at in (
        (ds, "PixelSpacing", "patient"),
        (measures, "PixelSpacing", "patient"),
        (ds, "ImagerPixelSpacing", "detector"),
    ):
        distances = dicom.spacing(source, name) if source is not None else None
        if distances:
            return {"x": distances[1], "y": distances[0], "at": at}  # rows come first
    return None

"""The size of a pixel, where a DICOM file gives it: for lengths in millimetres."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from core.studio.ingest import dicom
from core.studio.ingest.unreadable import Unreadable

KEPT = 1024  # files whose answer is remembered


class Spacing(TypedDict):
    """The size of a pixel. x, y: millimetres from one pixel's centre to the next. at: `patient`, or `detector`, where a
    projection's shadow was measured and what casts it is smaller.
    """

    x: float
    y: float
    at: str


def of_case(case: Mapping[str, Any]) -> Spacing | None:
    """Finds the spacing of a case by its row (path, sha256); None for what is no DICOM, or says nothing, or is gone."""
    return _of(case["path"], case["sha256"])


@functools.lru_cache(maxsize=KEPT)
def _of(path: str, sha256: str | None) -> Spacing | None:
    """sha256: part of the cache's key, as another file may come to that path."""
    try:
        return of_header(dicom.header(Path(path))) if dicom.is_dicom(Path(path)) else None
    except (OSError, Unreadable):
        return None


def of_header(ds: Any) -> Spacing | None:
    """Reads PixelSpacing (PS3.3 10.7.1.1), of all frames if a multi-frame file shares it, else ImagerPixelSpacing."""
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

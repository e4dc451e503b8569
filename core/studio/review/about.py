"""What is known of a case besides its picture: file, format, patient's key, import. Only what the studio keeps."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.studio.ingest import dicom, video

KEY = 8  # characters of a patient's key that are shown
_NAMES = {"JPG": "JPEG", "TIF": "TIFF", "DCM": "DICOM", "IMA": "DICOM"}  # suffix: format


@functools.lru_cache(maxsize=1024)
def kind_of_file(path: str, sha256: str | None) -> str:
    """The format as a word, by the suffix; of a file without one by its first bytes. sha256: part of the key."""
    suffix = Path(path).suffix[1:].upper()
    try:
        if video.is_video(Path(path)):
            return f"{suffix} recording"
        return "DICOM" if dicom.is_dicom(Path(path)) else _NAMES.get(suffix, suffix or "image")
    except OSError:
        return _NAMES.get(suffix, suffix or "image")


def of_case(case: Mapping[str, Any]) -> dict:
    """{"format", "patient", "study", "added", "shown_from", "text"} of a case's row. patient: the first letters of its
    keyed hash; shown_from: stored values that are black and white; text: whether burned-in text is likely.
    """
    return {
        "format": kind_of_file(case["path"], case["sha256"]),
        "patient": case["patient"][:KEY] if case["patient"] else None,
        "study": case["study"],
        "added": case["added"],
        "shown_from": json.loads(case["scale"]) if case["scale"] else None,
        "text": None if case["burned_in"] is None else bool(case["burned_in"]),
    }

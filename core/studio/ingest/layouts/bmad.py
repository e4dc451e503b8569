"""BMAD (Bao et al. 2024): train/good, valid/good, test/good, test/Ungood; img and label below, where there are masks.

Validation normals are held out, to set thresholds by. Validation lesions are passed over: nothing here is chosen by
lesions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from core.studio.ingest.layouts import Entry, with_masks

TITLE = "train/good, valid/good, test/good, test/Ungood, with img and label"


def fits(folder: Path) -> bool:
    return (folder / "train" / "good").is_dir() and (folder / "test" / "Ungood").is_dir()


def entries(folder: Path) -> Iterator[Entry]:
    parts = (
        ("train", "train/good", "normal"),
        ("holdout", "valid/good", "normal"),
        ("test", "test/good", "normal"),
        ("test", "test/Ungood", "abnormal"),
    )
    images = ((split, _images(folder / place), label) for split, place, label in parts)
    return with_masks(images, folder / "test" / "Ungood" / "label", "test/Ungood/img")


def _images(split_folder: Path) -> Path:
    inner = split_folder / "img"  # beside "label", in the sets with masks
    return inner if inner.is_dir() else split_folder

"""train/normal, test/normal, test/abnormal, test/mask (a mask bears its image's name); test/unknown if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from core.studio.ingest.layouts import Entry, with_masks

TITLE = "train/normal, test/normal, test/abnormal, test/mask"


def fits(folder: Path) -> bool:
    return (folder / "train" / "normal").is_dir() or (folder / "test" / "abnormal").is_dir()


def entries(folder: Path) -> Iterator[Entry]:
    parts = (("train", "normal"), ("test", "normal"), ("test", "abnormal"), ("test", "unknown"))
    images = ((split, folder / split / label, label) for split, label in parts)
    return with_masks(images, folder / "test" / "mask", "test/abnormal")

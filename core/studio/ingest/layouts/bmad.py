"""BMAD (Bao et al. 2024): train/good, valid/good, test/good, test/Ungood; img and label below, where there are masks.

Validation normals are held out, to set thresholds by. Validation lesions are passed over: nothing here is chosen by
lesions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from core.studio.ingest.layouts import Entry, by_stem, files_under

TITLE = "train/good, valid/good, test/good, test/Ungood, with img and label"


def fits(folder: Path) -> bool:
    return (folder / "train" / "good").is_dir() and (folder / "test" / "Ungood").is_dir()


def entries(folder: Path) -> Iterator[Entry]:
    masks = by_stem(folder / "test" / "Ungood" / "label")
    used = set()
    for split, place, label in (
        ("train", "train/good", "normal"),
        ("holdout", "valid/good", "normal"),
        ("test", "test/good", "normal"),
        ("test", "test/Ungood", "abnormal"),
    ):
        inner = folder / place / "img"
        for path in files_under(inner if inner.is_dir() else folder / place):
            mask = masks.get(path.stem) if label == "abnormal" else None
            used.add(mask)
            yield Entry(path, split, label, mask)
    for mask in sorted(set(masks.values()) - used):
        yield Entry(mask, "test", problem="a mask without an image of its name in test/Ungood/img")

"""train/normal, test/normal, test/abnormal, test/mask (a mask bears its image's name); test/unknown if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from core.studio.ingest.layouts import Entry, by_stem, files_under

TITLE = "train/normal, test/normal, test/abnormal, test/mask"


def fits(folder: Path) -> bool:
    return (folder / "train" / "normal").is_dir() or (folder / "test" / "abnormal").is_dir()


def entries(folder: Path) -> Iterator[Entry]:
    masks = by_stem(folder / "test" / "mask")
    used = set()
    for split, name, label in (
        ("train", "normal", "normal"),
        ("test", "normal", "normal"),
        ("test", "abnormal", "abnormal"),
        ("test", "unknown", "unknown"),
    ):
        for path in files_under(folder / split / name):
            mask = masks.get(path.stem) if split == "test" and label != "normal" else None
            used.add(mask)
            yield Entry(path, split, label, mask)
    for mask in sorted(set(masks.values()) - used):
        yield Entry(mask, "test", problem="a mask without an image of its name in test/abnormal")

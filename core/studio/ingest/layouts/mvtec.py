"""MVTec: train/good, test/good, test/DEFECT, ground_truth/DEFECT/NAME_mask.png. The defect's name becomes a tag."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from core.studio.ingest.layouts import Entry, by_stem, files_under

TITLE = "train/good, test/*, ground_truth/*"


def fits(folder: Path) -> bool:
    return (folder / "train" / "good").is_dir()


def entries(folder: Path) -> Iterator[Entry]:
    for path in files_under(folder / "train" / "good"):
        yield Entry(path)
    test = folder / "test"
    kinds = sorted(d for d in test.iterdir() if d.is_dir() and not d.name.startswith(".")) if test.is_dir() else []
    for kind in kinds:
        good = kind.name == "good"
        masks = {} if good else by_stem(folder / "ground_truth" / kind.name)
        used = set()
        for path in files_under(kind):
            mask = masks.get(path.stem)
            used.add(mask)
            label, tags = ("normal", ()) if good else ("abnormal", (kind.name,))
            yield Entry(path, "test", label, mask, tags)
        for mask in sorted(set(masks.values()) - used):
            yield Entry(mask, "test", problem=f"a mask without an image of its name in test/{kind.name}")

"""Recipes for the paper's data sets: from the unpacked downloads to a CSV of path, split, label, mask, and counts.

One module each, with TITLE, SOURCE (where to obtain it), COUNTS (the paper's number of images per part) and
`gather(folder) -> dict of parts`. The CSV is a split that can be shared: `study import NAME FILE.csv` makes the study.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

Parts = dict[str, list[tuple[Path, Path | None]]]  # "train normal", "test normal", "test abnormal": (image, mask)
PARTS = ("train normal", "test normal", "test abnormal")
IMAGES = {".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff"}


@dataclass
class Recipe:
    """What a recipe made: the CSV, the counts it found, and a sentence for each count that differs from the paper's."""

    name: str
    title: str
    table: Path
    counts: dict[str, int]
    masks: int
    differences: list[str] = field(default_factory=list)


def names() -> list[str]:
    """Lists the names of the recipes."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


def make(name: str, folder: Path, table: Path) -> Recipe:
    """Writes the CSV of the paper's study from `folder`. Raises ValueError if something is missing, with its source."""
    if name not in names():
        raise ValueError(f"there is no recipe {name!r}; there are: {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    folder = folder.expanduser().resolve()
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}; {module.TITLE} is obtained from {module.SOURCE}")
    images_by_part: Parts = module.gather(folder)
    empty = [group for group in PARTS if not images_by_part.get(group)]
    if empty:
        raise ValueError(
            f"{folder} holds no images for {', '.join(empty)} of {module.TITLE}: {module.EXPECTED}. "
            f"It is obtained from {module.SOURCE}"
        )
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["path", "split", "label", "mask"])
        for group in PARTS:
            for image, mask in images_by_part[group]:
                out.writerow([image, *group.split(), mask or ""])
    counts = {group: len(images_by_part[group]) for group in PARTS}
    differences = [
        f"{group}: {counts[group]} images, the paper has {module.COUNTS[group]}"
        for group in PARTS
        if counts[group] != module.COUNTS[group]
    ]
    masks = sum(mask is not None for _, mask in images_by_part["test abnormal"])
    if module.MASKS and masks < counts["test abnormal"]:
        differences.append(f"{counts['test abnormal'] - masks} abnormal images have no mask")
    return Recipe(name, module.TITLE, table, counts, masks, differences)


def images_in(folder: Path) -> list[Path]:
    """Lists the image files directly in a folder, by name; [] if the folder does not exist."""
    return sorted(p for p in folder.glob("*") if p.suffix.lower() in IMAGES) if folder.is_dir() else []


def found(root: Path, *names: str) -> Path:
    """Returns the folder of a relative path at any depth under `root`, else `root` / path."""
    relative = Path(*names)
    parents = [root, *(match.parent for match in sorted(root.rglob(names[0])))]
    return next((p / relative for p in parents if (p / relative).is_dir()), root / relative)


def drawn(images: Iterable[Path], count: int) -> tuple[list[Path], list[Path]]:
    """Draws `count` images by a hash of their names, the same on every machine; returns them and the others."""
    ranked = sorted(images, key=lambda p: hashlib.sha256(f"paper {p.name}".encode()).digest())
    return sorted(ranked[:count]), sorted(ranked[count:])


def alone(images: Iterable[Path]) -> list[tuple[Path, Path | None]]:
    """Pairs each image with None, for images without masks."""
    return [(image, None) for image in images]

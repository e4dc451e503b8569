"""Writes a CSV file with the path, split, label and mask of each image in a download of one of the paper's data sets.

`study import NAME FILE.csv` imports the file, which can be shared to reproduce the split elsewhere. If the paper does
not list its test images, they are chosen by a hash of their names.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

Parts = dict[str, list[tuple[Path, Path | None]]]  # {"train normal" or another of PARTS: [(image, mask)]}
PARTS = ("train normal", "test normal", "test abnormal")
IMAGES = {".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff"}


@dataclass
class Recipe:
    """Result of a recipe: the CSV file, the numbers of images, and a sentence for each difference from the paper."""

    name: str
    title: str
    table: Path
    counts: dict[str, int]
    masks: int
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Download:
    """Data set of the paper, with its source and the expected contents of its download."""

    title: str
    source: str  # address from which the data set can be obtained
    expected: str  # folders of the unpacked download
    counts: dict[str, int]  # number of images in the paper per part
    masks: bool  # whether every abnormal image has a mask
    gather: Callable[[Path], Parts]  # finds the images in the folder of the download


def names() -> list[str]:
    """Returns the names of all recipes."""
    return sorted(DOWNLOADS)


def make(name: str, folder: Path, table: Path) -> Recipe:
    """Writes the CSV file `table` for the data set `name` in `folder`. Raises ValueError if images are missing."""
    if name not in DOWNLOADS:
        raise ValueError(f"unknown recipe {name!r}; choose from: {', '.join(names())}")
    download = DOWNLOADS[name]
    folder = folder.expanduser().resolve()
    if not folder.is_dir():
        raise ValueError(f"the folder {folder} does not exist; {download.title} is available from {download.source}")
    images_by_part = download.gather(folder)
    empty = [group for group in PARTS if not images_by_part.get(group)]
    if empty:
        raise ValueError(
            f"{folder} has no images for {', '.join(empty)} of {download.title}; expected are {download.expected}. "
            f"The data set is available from {download.source}"
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
        f"{group}: {counts[group]} images, but the paper has {download.counts[group]}"
        for group in PARTS
        if counts[group] != download.counts[group]
    ]
    masks = sum(mask is not None for _, mask in images_by_part["test abnormal"])
    if download.masks and masks < counts["test abnormal"]:
        differences.append(f"{counts['test abnormal'] - masks} abnormal images have no mask")
    return Recipe(name, download.title, table, counts, masks, differences)


def images_in(folder: Path) -> list[Path]:
    """Returns the images directly in a folder, sorted by name, or [] if the folder does not exist."""
    return sorted(p for p in folder.glob("*") if p.suffix.lower() in IMAGES) if folder.is_dir() else []


def found(root: Path, *names: str) -> Path:
    """Returns the first folder below `root` whose path ends with `names`, or `root` / `names` if there is none."""
    relative = Path(*names)
    parents = [root, *(match.parent for match in sorted(root.rglob(names[0])))]
    return next((p / relative for p in parents if (p / relative).is_dir()), root / relative)


def split_by_hash(images: Iterable[Path], count: int) -> tuple[list[Path], list[Path]]:
    """Splits images into (`count` images, the others) by a hash of their names, identically on every machine."""
    ranked = sorted(images, key=lambda p: hashlib.sha256(f"paper {p.name}".encode()).digest())
    return sorted(ranked[:count]), sorted(ranked[count:])


def without_masks(images: Iterable[Path]) -> list[tuple[Path, Path | None]]:
    """Pairs each image with None, for images that have no masks."""
    return [(image, None) for image in images]


def _kvasir(folder: Path) -> Parts:
    lower = found(folder, "lower-gi-tract")
    classes = (
        ("anatomical-landmarks", "cecum"), ("anatomical-landmarks", "ileum"), ("quality-of-mucosal-views", "bbps-2-3"),
    )  # fmt: skip
    normal = [image for subfolders in classes for image in images_in(lower.joinpath(*subfolders))]
    test, remaining = split_by_hash(normal, 500)
    train, _ = split_by_hash(remaining, 1600)
    segmented = found(folder, "segmented-images")
    masks = {p.stem: p for p in images_in(segmented / "masks")}
    polyps = [(p, masks.get(p.stem)) for p in images_in(segmented / "images")]
    return {"train normal": without_masks(train), "test normal": without_masks(test), "test abnormal": polyps}


def _lag(folder: Path) -> Parts:
    """Returns the images of LAG. The masks are attention maps, which show where ophthalmologists looked."""
    test, train = split_by_hash(images_in(found(folder, "non_glaucoma", "image")), 800)
    sick = found(folder, "suspicious_glaucoma", "image")
    maps = {p.stem: p for p in images_in(sick.parent / "attention_map")}
    abnormal = [(p, maps.get(p.stem)) for p in images_in(sick)]
    return {"train normal": without_masks(train), "test normal": without_masks(test), "test abnormal": abnormal}


def _liu(folder: Path) -> Parts:
    """Returns the frames of Liu et al. The authors specify no folder names, so several names are accepted."""
    options = {
        "train normal": (("train", "normal"), ("train", "good"), ("train", "0"), ("train",)),
        "test normal": (("test", "normal"), ("test", "good"), ("test", "0")),
        "test abnormal": (("test", "abnormal"), ("test", "polyp"), ("test", "1")),
    }
    return {
        group: without_masks(
            next((images for subfolders in any_of if (images := images_in(found(folder, *subfolders)))), [])
        )
        for group, any_of in options.items()
    }


def _covidx(folder: Path) -> Parts:
    train, test = (_listed(folder, split) for split in ("train", "test"))
    negative, positive = ("negative", "normal", "pneumonia"), ("positive", "covid-19")
    return {
        "train normal": without_masks(p for p, kind in train if kind in negative),
        "test normal": without_masks(p for p, kind in test if kind in negative),
        "test abnormal": without_masks(p for p, kind in test if kind in positive),
    }


def _listed(folder: Path, split: str) -> list[tuple[Path, str]]:
    """Returns (image, class) for the existing images of a split, listed in lines "patient file class source"."""
    lists = sorted(folder.rglob(f"{split}*.txt"))
    if not lists:
        return []
    rows = []
    for line in lists[-1].read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if len(words) >= 3:
            path = lists[-1].parent / split / words[1]
            if path.is_file():
                rows.append((path, words[2].lower()))
    return sorted(rows)


DOWNLOADS = {
    "hyperkvasir": Download(  # Borgli et al. 2020: normal frames of three classes, polyps with masks
        "Hyper-Kvasir",
        "https://datasets.simula.no/hyper-kvasir (labeled-images and segmented-images)",
        "labeled-images/lower-gi-tract with anatomical-landmarks/cecum and ileum and quality-of-mucosal-views/bbps-2-3,"
        " and segmented-images with images and masks",
        {"train normal": 1600, "test normal": 500, "test abnormal": 1000},
        True,
        _kvasir,
    ),
    "lag": Download(  # Li et al. 2019: fundus images with and without glaucoma
        "LAG",
        "https://github.com/smilell/AG-CNN (the LAG database, on request)",
        "folders non_glaucoma/image, suspicious_glaucoma/image and suspicious_glaucoma/attention_map",
        {"train normal": 2343, "test normal": 800, "test abnormal": 1711},
        True,
        _lag,
    ),
    "liu": Download(
        "Liu et al.'s colonoscopy frames",
        "the authors (Liu et al. 2020, Photoshopping Colonoscopy Video Frames)",
        "folders train (or train/normal), test/normal (or test/good, test/0), test/abnormal (or test/polyp, test/1)",
        {"train normal": 13_250, "test normal": 677, "test abnormal": 290},
        False,
        _liu,
    ),
    "covidx": Download(  # Wang et al. 2020; the counts are from the binary lists of COVIDx
        "Covid-X",
        "https://www.kaggle.com/datasets/andyczhao/covidx-cxr2 (lists: https://github.com/lindawangg/COVID-Net)",
        "folders train and test, and next to them lists such as train.txt and test.txt (or train_COVIDx8B.txt)",
        {"train normal": 13_794, "test normal": 200, "test abnormal": 200},
        False,
        _covidx,
    ),
}

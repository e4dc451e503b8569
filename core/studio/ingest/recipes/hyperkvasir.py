"""Hyper-Kvasir (Borgli et al. 2020): 1,600 + 500 normal frames of three classes, 1,000 polyps with masks.

The paper does not say which 2,100 frames of the three classes it used: they are drawn here by a hash of their names.
"""

from __future__ import annotations

from pathlib import Path

from core.studio.ingest.recipes import Parts, alone, drawn, found, images_in

TITLE = "Hyper-Kvasir"
SOURCE = "https://datasets.simula.no/hyper-kvasir (labeled-images and segmented-images)"
EXPECTED = (
    "labeled-images/lower-gi-tract with anatomical-landmarks/cecum and ileum and quality-of-mucosal-views/bbps-2-3, "
    "and segmented-images with images and masks"
)
COUNTS = {"train normal": 1600, "test normal": 500, "test abnormal": 1000}
MASKS = True
CLASSES = (
    ("anatomical-landmarks", "cecum"),
    ("anatomical-landmarks", "ileum"),
    ("quality-of-mucosal-views", "bbps-2-3"),
)


def gather(folder: Path) -> Parts:
    lower = found(folder, "lower-gi-tract")
    normal = [image for subfolders in CLASSES for image in images_in(lower.joinpath(*subfolders))]
    test, remaining = drawn(normal, COUNTS["test normal"])
    train, _ = drawn(remaining, COUNTS["train normal"])
    segmented = found(folder, "segmented-images")
    masks = {p.stem: p for p in images_in(segmented / "masks")}
    polyps = [(p, masks.get(p.stem)) for p in images_in(segmented / "images")]
    return {"train normal": alone(train), "test normal": alone(test), "test abnormal": polyps}

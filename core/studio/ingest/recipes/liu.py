"""Liu et al.'s colonoscopy frames (2020): 13,250 normal ones to learn from; 677 normal and 290 with polyps to test.

The authors give it on request and name no folders; any of the names below will do.
"""

from __future__ import annotations

from pathlib import Path

from core.studio.ingest.recipes import Parts, alone, found, images_in

TITLE = "Liu et al.'s colonoscopy frames"
SOURCE = "the authors (Liu et al. 2020, Photoshopping Colonoscopy Video Frames)"
EXPECTED = "folders train (or train/normal), test/normal (or test/good, test/0), test/abnormal (or test/polyp, test/1)"
COUNTS = {"train normal": 13_250, "test normal": 677, "test abnormal": 290}
MASKS = False
NAMES = {
    "train normal": (("train", "normal"), ("train", "good"), ("train", "0"), ("train",)),
    "test normal": (("test", "normal"), ("test", "good"), ("test", "0")),
    "test abnormal": (("test", "abnormal"), ("test", "polyp"), ("test", "1")),
}


def gather(folder: Path) -> Parts:
    return {
        group: alone(next((images for subfolders in options if (images := images_in(found(folder, *subfolders)))), []))
        for group, options in NAMES.items()
    }

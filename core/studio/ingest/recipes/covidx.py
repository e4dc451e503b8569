"""Covid-X (Wang et al. 2020): 13,794 chest X-rays without Covid-19 for training; 200 without and 200 with for testing.

The counts are those of COVIDx's binary lists (`positive`, `negative`); a list's lines are patient, file, class, source.
"""

from __future__ import annotations

from pathlib import Path

from core.studio.ingest.recipes import Parts, alone

TITLE = "Covid-X"
SOURCE = "https://www.kaggle.com/datasets/andyczhao/covidx-cxr2 (lists: https://github.com/lindawangg/COVID-Net)"
EXPECTED = "folders train and test, and next to them lists such as train.txt and test.txt (or train_COVIDx8B.txt)"
COUNTS = {"train normal": 13_794, "test normal": 200, "test abnormal": 200}
MASKS = False
NEGATIVE, POSITIVE = ("negative", "normal", "pneumonia"), ("positive", "covid-19")


def gather(folder: Path) -> Parts:
    train, test = (_listed(folder, split) for split in ("train", "test"))
    return {
        "train normal": alone(p for p, kind in train if kind in NEGATIVE),
        "test normal": alone(p for p, kind in test if kind in NEGATIVE),
        "test abnormal": alone(p for p, kind in test if kind in POSITIVE),
    }


def _listed(folder: Path, split: str) -> list[tuple[Path, str]]:
    """Lists the images of a split that exist, with their classes."""
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

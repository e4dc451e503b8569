"""Draws cases of a study into its folder, for the ready demo and for benchmarks."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from core.engine.phantom.frame import Case, draw_case

SPLITS = {"train": 0, "test_normal": 1, "test_abnormal": 2}
FOLDERS = {"train": "train/normal", "test_normal": "test/normal", "test_abnormal": "test/abnormal"}
MASKS = "test/mask"


def frame(seed: int, split: str, i: int, side: int) -> Case:
    """Draws frame i of a split; an abnormal one has one to three lesions, mostly one."""
    key = (seed, SPLITS[split], i)
    lesions = np.random.default_rng([*key, 77]).choice((1, 2, 3), p=(0.6, 0.27, 0.13))
    return draw_case(key, side, int(lesions) if split == "test_abnormal" else 0)


def draw(task: tuple[int, str, int, int, str]) -> None:
    """Draw case i of a part as PNG, and its lesion mask beside. task: (seed, part, i, side in pixels, folder).

    Raises OSError if a file cannot be written.
    """
    cv2.setNumThreads(1)
    seed, split, i, side, folder = task
    case = frame(seed, split, i, side)
    name = f"{split.split('_')[-1]}-{i:04d}.png"
    _write(Path(folder) / FOLDERS[split] / name, case.image[..., ::-1])
    if split == "test_abnormal":
        _write(Path(folder) / MASKS / name, case.mask * 255)


def _write(path: Path, image) -> None:
    if not cv2.imwrite(str(path), image):
        raise OSError(f"{path} could not be written")

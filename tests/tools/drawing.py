"""Draws cases of a study into its folder, for the ready demo and for benchmarks."""

from __future__ import annotations

from pathlib import Path

import cv2

FOLDERS = {"train": "train/normal", "test_normal": "test/normal", "test_abnormal": "test/abnormal"}
MASKS = "test/mask"


def draw(task: tuple[int, str, int, int, str]) -> None:
    """Draw case i of a part as PNG, and its lesion mask beside. task: (seed, part, i, side in pixels, folder).

    Raises OSError if a file cannot be written.
    """
    from core.engine.phantom.frame import SPLITS, draw_case, lesions_of

    cv2.setNumThreads(1)
    seed, split, i, side, folder = task
    key = (seed, SPLITS[split], i)
    case = draw_case(key, side, lesions_of(key) if split == "test_abnormal" else 0)
    name = f"{split.split('_')[-1]}-{i:04d}.png"
    _write(Path(folder) / FOLDERS[split] / name, case.image[..., ::-1])
    if split == "test_abnormal":
        _write(Path(folder) / MASKS / name, case.mask * 255)


def _write(path: Path, image) -> None:
    if not cv2.imwrite(str(path), image):
        raise OSError(f"{path} could not be written")

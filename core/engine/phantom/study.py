"""A whole study from one seed: normal frames to learn from, normal and abnormal ones to be tested on."""

from __future__ import annotations

import numpy as np

from core.engine.phantom.frame import draw_case
from core.engine.progress import Report

SPLITS = {"train": 0, "test_normal": 1, "test_abnormal": 2}
SIZES = (64, 512)


def draw_study(
    seed: int,
    n_train: int = 160,
    n_test_normal: int = 60,
    n_test_abnormal: int = 60,
    size: int = 256,
    report: Report | None = None,
) -> dict[str, np.ndarray]:
    """{"train", "test_normal", "test_abnormal": uint8 (N, size, size, 3); "masks": uint8 (N, size, size) 0/1 of the
    abnormal ones}. Each frame depends on the seed, its split and its place in it alone: a longer study begins
    with the shorter one, and the scenes do not depend on the size."""
    if not SIZES[0] <= size <= SIZES[1]:
        raise ValueError(f"a drawn study has frames of {SIZES[0]} to {SIZES[1]} pixels, not {size}")
    counts = {"train": n_train, "test_normal": n_test_normal, "test_abnormal": n_test_abnormal}
    if min(counts.values()) < 0 or seed < 0:
        raise ValueError("a drawn study takes a seed and numbers of frames that are not negative")
    study = {name: np.zeros((n, size, size, 3), np.uint8) for name, n in counts.items()}
    study["masks"] = np.zeros((n_test_abnormal, size, size), np.uint8)
    done = 0
    for name, n in counts.items():
        for i in range(n):
            key = (seed, SPLITS[name], i)
            case = draw_case(key, size, lesions_of(key) if name == "test_abnormal" else 0)
            study[name][i] = case.image
            if name == "test_abnormal":
                study["masks"][i] = case.mask
            done += 1
            if report:
                report({"step": done, "steps": sum(counts.values())})
    return study


def lesions_of(key: tuple[int, ...]) -> int:
    """One to three, mostly one."""
    return int(np.random.default_rng([*key, 77]).choice((1, 2, 3), p=(0.6, 0.27, 0.13)))

"""Measurements of masks from boxes, and of the gestures up to Dice 0.85: clicks alone, or a loose box, then clicks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import inference_copy
from core.engine.backbones.encoder import build_encoder
from core.engine.segment.lite_medsam import Corners, load
from core.engine.segment.region import Click, lattice, refined, region
from tests.benches._fit import dice, next_click

SETS = ("hyperkvasir", "brain", "idrid")
LOOSE = 0.15  # of the lesion's width and height, on every side
IMAGES = 40  # of a set, evenly by name from the second
ENOUGH, MOST = 0.85, 10  # Dice; clicks until it is given up
LEAST = 30 / 256**2  # of the image: smaller lesions are left out


def boxes_of_sets(data: Path, quick: bool = False) -> dict[str, Any]:
    """Measures masks from boxes, and the gestures up to Dice 0.85, on each of SETS that `data` holds.

    Returns {set: {"lesions", "tight", "loose": mean Dice, "embedding_s", "box_s", "clicks", "box_and_clicks"}}.
    The last two: {"reached": share of lesions with Dice 0.85 after MOST clicks at most, "gestures": their mean number
    (a box is one; MOST + 1 where it is not reached), "seconds": mean time that the studio takes for them, what is made
    once an image left out}.
    """
    encoder = inference_copy(build_encoder(EncoderConfig(arch="efficientnet-lite0", init="imagenet")).eval())
    model = load()
    out: dict[str, Any] = {}
    for name in (name for name in SETS if (data / name).is_dir()):
        rows: dict[str, list[float]] = {}
        for image, truth in _lesions(data / name, 4 if quick else IMAGES):
            started = time.perf_counter()
            embedding = model.embed(image)
            rows.setdefault("embedding_s", []).append(time.perf_counter() - started)
            tight, loose = _box(truth, 0.0), _box(truth, LOOSE)
            started = time.perf_counter()
            start = model.masks(embedding, [loose], truth.shape)[0]
            took = time.perf_counter() - started
            rows.setdefault("box_s", []).append(took)
            rows.setdefault("loose", []).append(dice(start, truth))
            rows.setdefault("tight", []).append(dice(model.masks(embedding, [tight], truth.shape)[0], truth))
            cells = lattice(encoder, image)
            alone = partial(region, cells, shape=truth.shape)
            correcting = partial(refined, cells, start)
            for kind, first, answer, spent in (
                ("clicks", np.zeros_like(truth), alone, (0, 0.0)),
                ("box_and_clicks", start, correcting, (1, took)),
            ):
                gestures, seconds = _until_enough(truth, first, answer)
                rows.setdefault(f"{kind} reached", []).append(gestures <= MOST)
                rows.setdefault(f"{kind} gestures", []).append(gestures + spent[0])
                rows.setdefault(f"{kind} seconds", []).append(seconds + spent[1])
        mean = {key: round(float(np.mean(values)), 3) for key, values in rows.items()}
        figures: dict[str, Any] = {"lesions": len(rows["tight"])}
        figures |= {key: value for key, value in mean.items() if " " not in key}
        for kind in ("clicks", "box_and_clicks"):
            figures[kind] = {measure: mean[f"{kind} {measure}"] for measure in ("reached", "gestures", "seconds")}
        out[name] = figures
    return out


def _until_enough(
    truth: np.ndarray, mask: np.ndarray, answer: Callable[[Sequence[Click]], np.ndarray]
) -> tuple[int, float]:
    """Clicks until Dice is ENOUGH, MOST + 1 where it is not, and the seconds that answering them took."""
    clicks: list[Click] = []
    started = time.perf_counter()
    while dice(mask, truth) < ENOUGH:
        click = next_click(truth, mask)
        if len(clicks) == MOST or click is None:
            return MOST + 1, time.perf_counter() - started
        clicks.append(click)
        mask = answer(clicks)
    return len(clicks), time.perf_counter() - started


def _box(mask: np.ndarray, more: float) -> Corners:
    left, top, width, height = cv2.boundingRect(mask.astype(np.uint8))
    return left - more * width, top - more * height, left + (1 + more) * width, top + (1 + more) * height


def _lesions(folder: Path, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images uint8 (H, W, 3), each with the mask bool (H, W) of its largest lesion."""
    paths = sorted((folder / "test" / "mask").glob("*.png"))[1:]
    samples = []
    for path in paths[:: max(1, len(paths) // count)][:count]:
        image = cv2.imread(str(next((folder / "test" / "abnormal").glob(f"{path.stem}.*"))))
        lesions = np.asarray(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)) > 127
        _, parts, stats, _ = cv2.connectedComponentsWithStats(lesions.astype(np.uint8))
        if image is not None and len(stats) > 1 and stats[1:, cv2.CC_STAT_AREA].max() >= LEAST * parts.size:
            largest = parts == 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
            samples.append((np.ascontiguousarray(image[..., ::-1]), largest))
    return samples

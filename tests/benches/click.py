"""Benchmark of click-to-segment against GrabCut."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import inference_copy
from core.engine.backbones.encoder import Encoder, build_encoder
from core.engine.segment.region import Box, Click, lattice, region
from tests.benches import bench
from tests.benches._boxes import boxes_of_sets
from tests.benches._fit import clicked, fit_weights

RADII = (0.1, 0.15, 0.2, 0.3)  # of the disc that may be lesion round a click, in parts of the window's shorter side
RADIUS = 0.1  # the best of these on polyps that nothing is measured on: `bench click --only fit`
SURE = 0.02  # of the disc that is surely lesion, or surely not
ROUNDS = 3
LONGEST = 112  # pixels of the window's longer side, twice the lattice's; at 320 a click takes 2.7 s of a processor


def grabcut(image: np.ndarray, box: Box, clicks: Sequence[Click], radius: float | None = None) -> np.ndarray:
    """Segments a window of an image uint8 (H, W, 3) by GrabCut -> bool (H, W), the parts that hold a positive click.

    The window is made smaller to at most LONGEST pixels a side.
    Probably lesion: discs of `radius` round the positive clicks; probably not: all else. Surely: small discs.
    """
    x0, y0, x1, y1 = box
    zoom = min(1.0, LONGEST / max(x1 - x0, y1 - y0))
    w, h = round((x1 - x0) * zoom), round((y1 - y0) * zoom)
    crop = cv2.resize(np.ascontiguousarray(image[y0:y1, x0:x1, ::-1]), (w, h), interpolation=cv2.INTER_AREA)
    side = min(h, w)
    mask = np.full((h, w), cv2.GC_PR_BGD, np.uint8)
    spots = [(min(int((c.x - x0) * zoom), w - 1), min(int((c.y - y0) * zoom), h - 1), c.positive) for c in clicks]
    wide, sure = round((radius or RADIUS) * side), max(1, round(SURE * side))
    for x, y, positive in spots:
        if positive:
            cv2.circle(mask, (x, y), wide, cv2.GC_PR_FGD, -1)
    for x, y, positive in spots:
        cv2.circle(mask, (x, y), sure, cv2.GC_FGD if positive else cv2.GC_BGD, -1)
    models = np.zeros((1, 65)), np.zeros((1, 65))
    cv2.setRNGSeed(0)
    cv2.grabCut(crop, mask, (0, 0, 0, 0), *models, ROUNDS, cv2.GC_INIT_WITH_MASK)
    lesion = np.isin(mask, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8)
    _, parts = cv2.connectedComponents(lesion)
    held = {int(parts[y, x]) for x, y, positive in spots if positive} - {0}
    lesion = np.isin(parts, list(held)).astype(np.float32)
    outline = np.zeros(image.shape[:2], bool)
    outline[y0:y1, x0:x1] = cv2.resize(lesion, (x1 - x0, y1 - y0), interpolation=cv2.INTER_LINEAR) > 0.5
    return outline


CLICKS = 5
EVERY = 4  # of the lesions, one is given to GrabCut too: it takes ten times as long
LEAST = 400  # pixels of a retinal lesion, of images whose shorter side is 512: 20 x 20
MOST = 3  # retinal lesions of an image, the largest
WINDOW = 256  # side of what is in sight of the retina: a lesion is clicked with the image zoomed in


@dataclass(frozen=True)
class Lesion:
    """One lesion: its image uint8 (H, W, 3), its mask bool (H, W), the window in sight."""

    image: np.ndarray
    truth: np.ndarray
    box: Box


@bench("click")
def click(quick: bool = False, data: str | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    """Click-to-segment: Dice after 1, 3 and 5 simulated clicks on polyps and retinal lesions, beside GrabCut.

    --data FOLDER holds hyperkvasir and idrid, each as NAME/test/abnormal and NAME/test/mask (same names).
    By name, every fourth polyp from the first was learnt from; the figures are of every second image from the second.
    No retina was learnt from.

    {"polyps", "retina": {"lesions", "dice": {clicks: mean}, "over_0.75_at_3", "grabcut": as dice, ...}}.

    dice_of_these: on those that GrabCut was given. click_ms: of one click, lattice_ms: of what is made once per
    window, both medians. only: "fit" prints weights learnt anew from the other polyps instead, and GrabCut's Dice on
    some of them for each radius of its disc.
    """
    if data is None:
        raise ValueError("say where the images are: --data FOLDER, which holds hyperkvasir and idrid")
    if "boxes" in only:
        return boxes_of_sets(Path(data), quick)
    encoder = inference_copy(build_encoder(EncoderConfig(arch="efficientnet-lite0", init="imagenet")).eval())
    learn = "fit" in only
    choice = slice(0, None, 4) if learn else slice(1, None, 2)
    if quick:
        choice = slice(choice.start, None, 24)
    polyps = _polyps(Path(data) / "hyperkvasir", choice)
    retina = _retina(Path(data) / "idrid", choice)
    if learn:
        samples = [(lattice(encoder, lesion.image, lesion.box), lesion.truth) for lesion in polyps]
        radii = {r: float(np.mean([_grabcut(lesion, r)[:3] for lesion in polyps[::8]])) for r in RADII}
        weights = [round(float(v), 4) for v in fit_weights(samples)]
        return {"images": len(samples), "weights": weights, "grabcut_radius": radii}
    out = {"polyps": _measured(encoder, polyps), "retina": _measured(encoder, retina)}
    ratio = out["polyps"]["dice_of_these"][3] / out["polyps"]["grabcut"][3]
    return {"ratio": round(ratio, 3), **out}


def _named(folder: Path, choice: slice) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images and masks of a part of the names, in their order."""
    pairs = []
    for path in sorted((folder / "test" / "mask").glob("*.png"))[choice]:
        image = cv2.imread(str(folder / "test" / "abnormal" / f"{path.stem}.jpg"))
        mask = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        if image is None or mask is None:
            raise ValueError(f"{path.stem} has no image, or it cannot be read, in {folder}")
        pairs.append((np.ascontiguousarray(image[..., ::-1]), mask > 127))
    if not pairs:
        raise ValueError(f"there are no masks in {folder}/test/mask")
    return pairs


def _polyps(folder: Path, choice: slice) -> list[Lesion]:
    return [Lesion(image, mask, (0, 0, *image.shape[1::-1])) for image, mask in _named(folder, choice)]


def _retina(folder: Path, choice: slice) -> list[Lesion]:
    """The largest lesions of each image, of at least LEAST pixels, each in a window round its middle."""
    lesions = []
    for image, mask in _named(folder, choice):
        _, parts, stats, middles = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
        areas = stats[1:, cv2.CC_STAT_AREA]
        for at in 1 + np.argsort(-areas, kind="stable")[:MOST]:
            if stats[at, cv2.CC_STAT_AREA] >= LEAST:
                side = min(max(WINDOW, 2 * int(stats[at, 2:4].max())), *image.shape[:2])
                corner = [
                    int(np.clip(m - side / 2, 0, n - side))
                    for m, n in zip(middles[at], image.shape[1::-1], strict=True)
                ]
                lesions.append(Lesion(image, parts == at, (*corner, corner[0] + side, corner[1] + side)))
    return lesions


def _grabcut(lesion: Lesion, radius: float | None = None) -> list[float]:
    return clicked(lesion.truth, lambda clicks: grabcut(lesion.image, lesion.box, clicks, radius), CLICKS)


def _measured(encoder: Encoder, lesions: list[Lesion]) -> dict[str, Any]:
    dices, taken, seconds = [], [], []
    for lesion in lesions:
        started = time.perf_counter()
        cells = lattice(encoder, lesion.image, lesion.box)
        seconds.append(time.perf_counter() - started)
        started = time.perf_counter()
        dices.append(clicked(lesion.truth, partial(region, cells, shape=lesion.truth.shape), CLICKS))
        taken.append((time.perf_counter() - started) / CLICKS)
    out: dict[str, Any] = {
        "lesions": len(lesions),
        "dice": _means(dices),
        "over_0.75_at_3": round(float(np.mean([d[2] > 0.75 for d in dices])), 3),
    }
    beside = lesions[::EVERY]
    out |= {"grabcut": _means([_grabcut(lesion) for lesion in beside]), "grabcut_lesions": len(beside)}
    out["dice_of_these"] = _means(dices[::EVERY])
    return {
        **out,
        "click_ms": round(1000 * float(np.median(taken)), 1),
        "lattice_ms": round(1000 * float(np.median(seconds)), 1),
    }


def _means(dices: list[list[float]]) -> dict[int, float]:
    return {n: round(float(np.mean([d[n - 1] for d in dices])), 3) for n in (1, 3, 5)}

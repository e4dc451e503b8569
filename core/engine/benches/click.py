"""Click-to-segment: Dice after 1, 3 and 5 simulated clicks on polyps and retinal lesions, beside GrabCut.

--data FOLDER holds hyperkvasir and idrid, each as NAME/test/abnormal and NAME/test/mask (same names).
By name, every fourth polyp from the first was learnt from; the figures are of every second image from the second. No
retina was learnt from.
"""

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
from core.engine.benches._grabcut import RADII, grabcut
from core.engine.segment.fit import clicked, fit_weights
from core.engine.segment.lattice import Box, Lattice, lattice
from core.engine.segment.region import Click, region

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


def run(quick: bool = False, data: str | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    """{"polyps", "retina": {"lesions", "dice": {clicks: mean}, "over_0.75_at_3", "grabcut": as dice, ...}}.

    dice_of_these: on those that GrabCut was given. click_ms: of one click, lattice_ms: of what is made once per
    window, both medians. only: "fit" prints weights learnt anew from the other polyps instead, and GrabCut's Dice on
    some of them for each radius of its disc.
    """
    if data is None:
        raise ValueError("say where the images are: --data FOLDER, which holds hyperkvasir and idrid")
    encoder = inference_copy(build_encoder(EncoderConfig(arch="efficientnet-lite0", init="imagenet")).eval())
    learn = "fit" in only
    part = slice(0, None, 4) if learn else slice(1, None, 2)
    if quick:
        part = slice(part.start, None, 24)
    polyps = _polyps(Path(data) / "hyperkvasir", part)
    retina = _retina(Path(data) / "idrid", part)
    if learn:
        samples = [(lattice(encoder, one.image, one.box), one.truth) for one in polyps]
        radii = {r: float(np.mean([_grabcut(one, r)[:3] for one in polyps[::8]])) for r in RADII}
        weights = [round(float(v), 4) for v in fit_weights(samples)]
        return {"images": len(samples), "weights": weights, "grabcut_radius": radii}
    out = {"polyps": _measured(encoder, polyps), "retina": _measured(encoder, retina)}
    ratio = out["polyps"]["dice_of_these"][3] / out["polyps"]["grabcut"][3]
    return {"ratio": round(ratio, 3), **out}


def _named(folder: Path, part: slice) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images and masks of a part of the names, in their order."""
    found = []
    for path in sorted((folder / "test" / "mask").glob("*.png"))[part]:
        image = cv2.imread(str(folder / "test" / "abnormal" / f"{path.stem}.jpg"))
        mask = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        if image is None or mask is None:
            raise ValueError(f"{path.stem} has no image, or it cannot be read, in {folder}")
        found.append((np.ascontiguousarray(image[..., ::-1]), mask > 127))
    if not found:
        raise ValueError(f"there are no masks in {folder}/test/mask")
    return found


def _polyps(folder: Path, part: slice) -> list[Lesion]:
    return [Lesion(image, mask, (0, 0, *image.shape[1::-1])) for image, mask in _named(folder, part)]


def _retina(folder: Path, part: slice) -> list[Lesion]:
    """The largest lesions of each image, of at least LEAST pixels, each in a window round its middle."""
    found = []
    for image, mask in _named(folder, part):
        _, parts, about, middles = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
        areas = about[1:, cv2.CC_STAT_AREA]
        for at in 1 + np.argsort(-areas, kind="stable")[:MOST]:
            if about[at, cv2.CC_STAT_AREA] >= LEAST:
                side = min(max(WINDOW, 2 * int(about[at, 2:4].max())), *image.shape[:2])
                corner = [
                    int(np.clip(m - side / 2, 0, n - side))
                    for m, n in zip(middles[at], image.shape[1::-1], strict=True)
                ]
                found.append(Lesion(image, parts == at, (*corner, corner[0] + side, corner[1] + side)))
    return found


def _grabcut(one: Lesion, radius: float | None = None) -> list[float]:
    return clicked(one.truth, lambda clicks: grabcut(one.image, one.box, clicks, radius), CLICKS)


def _region(cells: Lattice, one: Lesion, clicks: Sequence[Click]) -> np.ndarray:
    return region(cells, clicks, one.truth.shape)


def _measured(encoder: Encoder, lesions: list[Lesion]) -> dict[str, Any]:
    found, taken, made = [], [], []
    for one in lesions:
        started = time.perf_counter()
        cells = lattice(encoder, one.image, one.box)
        made.append(time.perf_counter() - started)
        started = time.perf_counter()
        found.append(clicked(one.truth, partial(_region, cells, one), CLICKS))
        taken.append((time.perf_counter() - started) / CLICKS)
    out: dict[str, Any] = {
        "lesions": len(lesions),
        "dice": _means(found),
        "over_0.75_at_3": round(float(np.mean([d[2] > 0.75 for d in found])), 3),
    }
    beside = lesions[::EVERY]
    out |= {"grabcut": _means([_grabcut(one) for one in beside]), "grabcut_lesions": len(beside)}
    out["dice_of_these"] = _means(found[::EVERY])
    return {
        **out,
        "click_ms": round(1000 * float(np.median(taken)), 1),
        "lattice_ms": round(1000 * float(np.median(made)), 1),
    }


def _means(found: list[list[float]]) -> dict[int, float]:
    return {n: round(float(np.mean([d[n - 1] for d in found])), 3) for n in (1, 3, 5)}

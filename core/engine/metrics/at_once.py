"""The figures of heat maps that fit into memory together: exact, and the reference of `by_blocks`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.engine.calibration.percentiles import PixelScale
from core.engine.metrics import bootstrap as boot
from core.engine.metrics.localisation import overlaps_of, pixel_auroc
from core.engine.metrics.pixels import Pixels
from core.engine.metrics.pro import pro, region_weights


@dataclass(frozen=True)
class Measured:
    """dice, iou (n,): of each image with a lesion that counts; share (n,): of its valid pixels, those outlined.
    pixel_aurocs, pros (times,): of each draw, or None.
    """

    dice: np.ndarray
    iou: np.ndarray
    share: np.ndarray
    pixel_auroc: float | None
    pro: float | None
    pixel_aurocs: np.ndarray | None = None
    pros: np.ndarray | None = None


def at_once(
    pixels: Pixels, used: np.ndarray, found: np.ndarray, scale: PixelScale, counts: np.ndarray | None = None
) -> Measured:
    """used (n,): the images that count; found bool (n,): those of them with a lesion pixel that counts; scale: by which
    they are outlined; counts (times, n): how often each image is drawn for the intervals.
    """
    maps, lesion, valid = pixels.read(used)
    sick = np.flatnonzero(found)
    its_maps, its_lesion, its_valid = maps[sick], lesion[sick], valid[sick]
    marked = pixels.outlined(used[sick], its_maps, its_valid, scale)
    dice, iou = overlaps_of(marked, its_lesion, its_valid)
    share = marked.sum((1, 2)) / its_valid.sum((1, 2))
    exact = (pixel_auroc(maps, lesion, None if pixels.roi is None else valid), pro(its_maps, its_lesion, its_valid))
    if counts is None:
        return Measured(dice, iou, share, *exact)
    weights, regions = region_weights(lesion, valid)
    heavy, light = boot.histograms(maps, weights, valid & ~lesion)
    its = counts[:, sick]
    pros = boot.pros(its @ heavy[sick], its @ regions[sick].astype(np.float32), its @ light[sick])
    heavy = boot.histograms(maps, (lesion & valid).astype(np.float32), valid & ~lesion)[0]
    return Measured(dice, iou, share, *exact, boot.aurocs(counts @ light, counts @ heavy), pros)

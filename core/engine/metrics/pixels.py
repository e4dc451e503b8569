"""Heat maps beside lesion masks, read a few images at a time from wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from core.engine.calibration.heatmap import upsample
from core.engine.calibration.outlines import level_of, outlined, peaks
from core.engine.calibration.percentiles import PixelScale
from core.engine.rows import Rows

BLOCK = 64  # images read at once


class CannotEvaluate(ValueError):
    """What was asked for needs something that was not given; the message says what."""


@dataclass(frozen=True)
class Pixels:
    """maps: float (N, h, w) at their own resolution. masks: uint8 (N, S, S). labels: (N,) 0/1. roi: uint8 (N, S, S),
    what lies outside does not count; None where all does.
    """

    maps: Rows
    masks: Rows
    labels: np.ndarray
    roi: Rows | None = None

    def read(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of images `index` (n,): maps float32 (n, S, S), lesion bool (n, S, S), valid bool (n, S, S).

        Raises CannotEvaluate if a map holds a value that is not finite.
        """
        lesion, valid = self.regions(index)
        maps = upsample(np.asarray(self.maps[index]), lesion.shape[1:])
        if not np.isfinite(maps).all():
            raise CannotEvaluate("the heat maps hold values that are not finite")
        return maps, lesion, valid

    def outlined(self, index: np.ndarray, maps: np.ndarray, valid: np.ndarray, scale: PixelScale) -> np.ndarray:
        """bool (n, S, S), what is outlined of images `index` (n,), whose `maps` and `valid` were read before."""
        cells = np.asarray(self.maps[index])
        highest = peaks(cells, None if self.roi is None else np.asarray(self.roi[index]), scale)
        return outlined(maps, level_of(highest, scale), scale, valid)

    def regions(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lesion = (np.asarray(self.masks[index]) > 0) & (self.labels[index] == 1)[:, None, None]
        return lesion, np.ones(lesion.shape, bool) if self.roi is None else np.asarray(self.roi[index]) > 0

    def lesions(self) -> tuple[np.ndarray, np.ndarray]:
        """Two bool (N,): which images have a lesion pixel, and which have one that counts."""
        marked, counted = np.zeros(len(self.labels), bool), np.zeros(len(self.labels), bool)
        for part in blocks(np.flatnonzero(self.labels == 1)):
            lesion, valid = self.regions(part)
            marked[part], counted[part] = lesion.any((1, 2)), (lesion & valid).any((1, 2))
        return marked, counted


def blocks(index: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(index), BLOCK):
        yield index[start : start + BLOCK]

"""What a patch was compared with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Match:
    """box: of the patch asked about, in its image. there: of the most similar normal patch, in its image.

    row: that image's place among those that the detector was fitted on. distance: between the patches' features.
    Boxes are (x0, y0, x1, y1) in pixels; they span the 3 x 3 cells whose features a patch averages.
    """

    box: tuple[float, float, float, float]
    there: tuple[float, float, float, float]
    row: int
    distance: float


def box_of(cell: int, side: int, size: int) -> tuple[float, float, float, float]:
    """Box of a flat cell of a `side` x `side` grid over an image of `size` pixels, cut off at the image's edge."""
    y, x = divmod(cell, side)
    step = size / side
    ends = ((max(place - 1, 0) * step, min(place + 2, side) * step) for place in (x, y))
    (x0, x1), (y0, y1) = ends
    return x0, y0, x1, y1

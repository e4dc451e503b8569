"""Presents the numbers of a run: its colour scale, its outlines, its percentile in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from core.engine.calibration.percentiles import PixelScale
from core.studio.db.store import Store
from core.studio.runs.operating import FLAG_PERCENTILE, USUAL, OperatingPoint
from core.studio.runs.readings import unpack_map

MOST_PIXELS = 2**24  # of held-out maps that a scale is computed from if the run did not store one


def pixel_scale(store: Store, run: dict) -> PixelScale:
    """Returns one scale for all of a run's heat maps, from held-out normals, and how its images are outlined.

    It starts at the median pixel of normal images and is twice as wide as their range, so that a normal image never
    reaches the upper half. If each image were scaled separately, every image would show red.
    """
    summary = run["summary"] if isinstance(run["summary"], dict) else json.loads(run["summary"])
    pixels = summary.get("pixels")
    if pixels and "lo" in pixels:  # as `score` stores it: the engine's own scale, also from held-out normals
        return PixelScale.of(pixels)
    if not pixels:
        values = _held_out_pixels(store, run["id"])
        if values is None:
            return PixelScale(0.0, 1.0, 0.5)
        middle, threshold, high = (float(v) for v in np.percentile(values, (50, 99, 99.5)))
        pixels = {"median": middle, "threshold": threshold, "high": high}
    lo, high = pixels["median"], pixels["high"]
    span = max(high - lo, 1e-9 + abs(high) * 1e-6)
    return PixelScale(lo, lo + 2 * span, pixels["threshold"])


def outline_level(row: Mapping[str, Any], scale: PixelScale) -> float:
    """Returns the level at which a reading's heat map is outlined. row: its `outline` is None in older runs, which have
    no level per image; these use the run's level until they are scored again."""
    return scale.threshold if not scale.apart or row["outline"] is None else float(row["outline"])


def _held_out_pixels(store: Store, run: str) -> np.ndarray | None:
    """Returns pixels of at most 200 held-out maps (test maps if none is held out); of large maps every n-th pixel."""
    for split in ("holdout", "test"):
        rows = store.query(
            "SELECT r.case_id AS id, r.run, r.map_h * r.map_w AS size FROM readings r JOIN cases c ON c.id = r.case_id "
            "WHERE r.run = ? AND c.split = ? AND r.map IS NOT NULL ORDER BY c.id LIMIT 200",
            [run, split],
        )
        if rows:
            every = max(1, -(-sum(row["size"] for row in rows) // MOST_PIXELS))
            columns = "SELECT map, map_h, map_w, map_lo, map_hi FROM readings WHERE case_id = :id AND run = :run"
            return np.concatenate([unpack_map(store.first(columns, row)).ravel()[::every].copy() for row in rows])
    return None


def in_words(percentile: float | None, flagged: bool | None, point: OperatingPoint | None = USUAL) -> str:
    """Puts a percentile into words: 'Higher than 99.2 % of held-out normals; flagged (above 95 %).' point: None if it
    must not be shown."""
    if percentile is None:
        return "Not scored by this run yet."
    share = "all" if percentile >= 100 else f"{percentile:.1f} % of"
    state = "flagged" if flagged else "not flagged"
    if point is None:
        return f"Higher than {share} held-out normals; {state}."
    above = f"{FLAG_PERCENTILE:g} %" if point.threshold is None else f"a score of {point.threshold:.3f}, {point.words}"
    return f"Higher than {share} held-out normals; {state} (above {above})."

"""The picture behind a point: a case's own image, or the MedMix version that was embedded."""

from __future__ import annotations

import cv2
import numpy as np

from core.engine.rows import Rows
from core.studio.clusters.library import Map
from core.studio.db.store import Store
from core.studio.ingest import cache, resize
from core.studio.ingest.masks import get_mask
from core.studio.ingest.originals import shown
from core.studio.review.scales import pixel_scale
from core.studio.runs import records as runs
from core.studio.runs.readings import unpack_map

_open: dict[tuple, Rows] = {}


def check(m: Map, point: int) -> int:
    """`point` if the map has it; ValueError otherwise."""
    if not 0 <= point < len(m.points):
        raise ValueError(f"this map has points 0 to {len(m.points) - 1}, not {point}")
    return point


def thumbnail(store: Store, m: Map, point: int, side: int = 96) -> np.ndarray:
    """uint8 (H, W, 3) RGB in the proportions of its case, at most `side` long; of a patch, it and what is around it."""
    check(m, point)
    mixed = int(m.points.mixed[point])
    image = m.points.mixed_images()[mixed] if mixed >= 0 else _arrays(store, m)[int(m.points.row[point])]
    image = np.asarray(image)
    box = m.points.box(point)
    if box is not None:
        x0, y0, x1, y1 = box
        length, reach = len(image), (x1 - x0)
        x, y = (np.clip([a - reach, b + reach], 0, 1) * length for a, b in ((x0, x1), (y0, y1)))
        image = np.ascontiguousarray(image[int(y[0]) : int(np.ceil(y[1])), int(x[0]) : int(np.ceil(x[1]))])
    return resize.shrink(image, *fitted(_aspect(store, m, point), side))


def fitted(aspect: float, side: int) -> tuple[int, int]:
    """(width, height) of a picture of that width by height whose longer side is `side`."""
    return (side, max(1, round(side / aspect))) if aspect >= 1 else (max(1, round(side * aspect)), side)


def _aspect(store: Store, m: Map, point: int) -> float:
    """Width by height of the case that a point is, or was made from: encoders see every image squeezed to a square."""
    case = store.one("SELECT width, height FROM cases WHERE id = ?", [int(m.points.case_id[point])])
    return case["width"] / case["height"] if case and case["width"] and case["height"] else 1.0


def picture(store: Store, m: Map, point: int, side: int = 512) -> np.ndarray:
    """uint8 (H, W, 3) RGB: a case's image, or its MedMix version, in the case's proportions, at most `side` long."""
    check(m, point)
    mixed = int(m.points.mixed[point])
    if mixed >= 0:
        image = np.asarray(m.points.mixed_images()[mixed])
        how = cv2.INTER_CUBIC if len(image) < side else cv2.INTER_AREA
        return cv2.resize(image, fitted(_aspect(store, m, point), side), interpolation=how)
    case = store.one("SELECT path, frame, scale FROM cases WHERE id = ?", [int(m.points.case_id[point])])
    if case is None:
        raise ValueError("this case is no longer in the study")
    image = shown(case)
    scale = min(1.0, side / max(image.shape[:2]))
    return resize.shrink(image, max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))


def outline(store: Store, m: Map, point: int) -> list[list[list[float]]]:
    """Outlines of what is known to be lesion (pasted by MedMix, or the case's mask): rings of [x, y] in 0 .. 1."""
    check(m, point)
    mixed = int(m.points.mixed[point])
    mask = m.points.mixed_mask(mixed) if mixed >= 0 else _mask(store, int(m.points.case_id[point]))
    if mask is None or not mask.any():
        return []
    rings, _ = cv2.findContours(np.ascontiguousarray(mask, np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_TC89_L1)
    height, width = mask.shape
    return [((ring[:, 0] + 0.5) / (width, height)).round(4).tolist() for ring in rings if len(ring) > 2]


def heat(store: Store, m: Map, point: int, fit: str, side: int = 256) -> np.ndarray:
    """RGBA uint8 (side, side, 4) to be stretched over the picture: a case's heat map by run `fit`.

    One scale for all images of the run, from held-out normals; what normal images show too stays transparent.
    """
    check(m, point)
    case_id = int(m.points.case_id[point])
    query = "SELECT map, map_h, map_w, map_lo, map_hi FROM readings WHERE run = ? AND case_id = ? AND map IS NOT NULL"
    row = store.one(query, [fit, case_id]) if m.points.lesions[point] == 0 else None
    if row is None:
        raise ValueError("this run has no heat map of this image")
    scale = pixel_scale(store, runs.get_run(store, fit))
    values = cv2.resize(unpack_map(row), (side, side), interpolation=cv2.INTER_LINEAR)
    level = np.clip((values - scale["lo"]) / (scale["hi"] - scale["lo"]), 0, 1)
    coloured = cv2.applyColorMap((level * 255).astype(np.uint8), cv2.COLORMAP_INFERNO)[:, :, ::-1]
    return np.dstack([coloured, (np.clip(level * 1.6, 0, 0.85) * 255).astype(np.uint8)])


def _mask(store: Store, case_id: int) -> np.ndarray | None:
    row = store.one(
        "SELECT id FROM lesion_masks WHERE case_id = ? AND source IN ('import', 'hand') ORDER BY version DESC LIMIT 1",
        [case_id],
    )
    return get_mask(store, row["id"]) if row else None


def _arrays(store: Store, m: Map) -> Rows:
    """The study's images at the map's size, mapped once per study state."""
    key = (str(store.home.path), m.about["study"], m.about["points_key"])
    if key not in _open:
        _open.clear()
        _open[key] = cache.load_arrays(store, m.about["study"], m.about["size"]).images
    return _open[key]

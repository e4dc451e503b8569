"""Summarises a study for display: numbers of cases by split and label, sample cases, images and outlines."""

from __future__ import annotations

import json
import os
import random
from collections import Counter

import cv2
import numpy as np

from core.studio.db.store import NotFound, Row, Store
from core.studio.ingest.decode import read_image
from core.studio.ingest.masks import get_mask, reference_mask, reference_masks
from core.studio.ingest.originals import shown
from core.studio.ingest.resize import ROI_SIDE, fit
from core.studio.ingest.studies import show_study

SPLITS = ("train", "holdout", "test")
LABELS = ("normal", "abnormal", "unknown")


def overview(store: Store, study: str) -> dict:
    """Returns the row of a study ("study"), the report of its import ("report") and properties of its images.

    "table" is the number of cases by split and label, "masks" the number of cases with a reference mask by split,
    "sizes" the four most frequent image sizes with their counts, and "size_count" the number of different sizes.
    """
    row = show_study(store, study)
    study = row["id"]
    cases = store.query(
        "SELECT width, height, bits, modality, COUNT(*) AS n FROM cases WHERE study = ? "
        "GROUP BY width, height, bits, modality",
        [study],
    )
    table = {s: {label: row["counts"].get(f"{s} {label}", 0) for label in LABELS} for s in SPLITS}
    sizes: Counter[str] = Counter()
    for case in cases:
        sizes[f"{case['width']} x {case['height']}"] += case["n"]
    with_truth = store.query(
        "SELECT split, COUNT(*) AS n FROM cases WHERE id IN (SELECT value FROM json_each(?)) GROUP BY split",
        [json.dumps([*reference_masks(store, study)])],
    )
    masks = {r["split"]: r["n"] for r in with_truth}
    report = store.setting(f"import:{study}")
    if report:  # burned-in text as known now, not at the import
        text = store.query("SELECT name FROM cases WHERE study = ? AND burned_in = 1 ORDER BY name", [study])
        report = {**report, "burned_in": [case["name"] for case in text]}
    return {
        "study": row,
        "table": table,
        "masks": {s: masks.get(s, 0) for s in SPLITS},
        "sizes": sizes.most_common(4),
        "size_count": len(sizes),
        "bits": sorted({c["bits"] for c in cases if c["bits"]}),
        "modalities": sorted({c["modality"] for c in cases if c["modality"]}),
        "report": report,
    }


def sample(store: Store, study: str, count: int, seed: int = 0, split: str = "all") -> list[dict]:
    """Draws up to `count` random cases, evenly over all splits and labels, or only from one such as "test normal"."""
    rows = store.query(
        "SELECT split || ' ' || label AS part, json_group_array(id) AS ids FROM cases WHERE study = ? GROUP BY 1",
        [study],
    )
    groups = {row["part"]: sorted(json.loads(row["ids"])) for row in rows}
    draw = random.Random(seed)
    chosen = [groups[split]] if split in groups else [] if split != "all" else [v for _, v in sorted(groups.items())]
    samples = [draw.sample(group, min(count, len(group))) for group in chosen]
    turns = [group[i] for i in range(count) for group in samples if i < len(group)][:count]
    cases = store.query(
        "SELECT id, name, split, label, width, height FROM cases WHERE id IN (SELECT value FROM json_each(?))",
        [json.dumps(turns)],
    )
    order = {f"{s} {label}": (i, j) for i, s in enumerate(SPLITS) for j, label in enumerate(LABELS)}
    cases.sort(key=lambda c: turns.index(c["id"]))
    return sorted(cases, key=lambda c: order[f"{c['split']} {c['label']}"])


def tile(store: Store, case_id: int, side: int) -> np.ndarray:
    """Returns the image of a case, uint8 `(H, W, 3)`, shrunk to at most `side` pixels per side, or raises NotFound."""
    return fit(shown(_file(store, case_id)), side)


def preview(path: str | os.PathLike, side: int) -> np.ndarray:
    """Returns the first frame of a file that is not imported yet, resized to at most `side` pixels per side."""
    return fit(read_image(path), side)


def outlines(store: Store, case_id: int) -> dict:
    """Returns {"roi": polygons of the region of interest, "lesion": polygons of the reference mask} for a case."""
    from core.engine.roi import find_roi

    roi = find_roi(fit(shown(_file(store, case_id)), ROI_SIDE))
    truth = reference_mask(store, case_id)
    lesion = [] if truth is None else polygons(get_mask(store, truth))
    return {"roi": [] if roi.all() else polygons(roi), "lesion": lesion}


def polygons(mask: np.ndarray, tolerance: float = 0.003) -> list[list[list[float]]]:
    """Returns the outlines of the components and holes of a mask as polygons [[x, y], ...].

    x and y are fractions of the width and height. `tolerance` is the maximum error as a fraction of the longer side.
    """
    height, width = mask.shape
    contours, _ = cv2.findContours((mask > 0).astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    lines = (cv2.approxPolyDP(line, tolerance * max(height, width), True)[:, 0] for line in contours)
    scale = np.array([width, height], float)
    return [((line + 0.5) / scale).round(4).tolist() for line in lines if len(line) > 2]


def _file(store: Store, case_id: int) -> Row:
    row = store.one("SELECT path, frame, scale FROM cases WHERE id = ?", [case_id])
    if row is None:
        raise NotFound(f"unknown case {case_id}")
    return row

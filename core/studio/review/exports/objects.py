"""A lesion mask as its objects: connected components (8 neighbours), which together are the mask, pixel for pixel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np

from core.studio.db.store import Store

DEFAULT = "lesion"


@dataclass(frozen=True)
class Component:
    """counts: COCO's run lengths, down the columns, background first; bbox: x, y, width, height in pixels."""

    counts: list[int]
    area: int
    bbox: list[float]


def label_map(mask: np.ndarray) -> tuple[np.ndarray, int]:
    """mask (H, W) of 0 and not 0 -> int32 (H, W), 0 outside and 1..n in the components, and n."""
    count, parts = cv2.connectedComponents((np.asarray(mask) > 0).astype(np.uint8), connectivity=8, ltype=cv2.CV_32S)
    return parts, count - 1


def components(mask: np.ndarray) -> Iterator[Component]:
    """The components from the upper left on. Time goes with the mask's pixels, not with image times components."""
    mask = (np.asarray(mask) > 0).astype(np.uint8)
    if not mask.any():
        return
    _, parts, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8, ltype=cv2.CV_32S)
    down = parts.T.ravel()
    lit = np.flatnonzero(down)
    order = np.argsort(down[lit], kind="stable")
    ends = np.cumsum(stats[1:, cv2.CC_STAT_AREA])
    for pixels, box in zip(np.split(lit[order], ends[:-1]), stats[1:], strict=True):
        breaks = np.flatnonzero(np.diff(pixels) > 1)
        first = pixels[np.concatenate(([0], breaks + 1))]
        after = pixels[np.concatenate((breaks, [len(pixels) - 1]))] + 1
        edges = np.concatenate(([0], np.stack([first, after], 1).ravel(), [mask.size]))
        yield Component(np.diff(edges).tolist(), int(box[4]), [float(v) for v in box[:4]])


def labels_of(store: Store, study: str) -> dict[tuple[int, int], str]:
    """(case, version of its mask) -> the label of the newest finding made with that version."""
    rows = store.query(
        "SELECT f.case_id, f.mask_version, f.label FROM findings f JOIN cases c ON c.id = f.case_id WHERE c.study = ? "
        "AND f.mask_version IS NOT NULL ORDER BY f.id",
        [study],
    )
    return {(r["case_id"], r["mask_version"]): r["label"] for r in rows}


def label_of(row: dict, found: dict[tuple[int, int], str], known: list[str]) -> str:
    """What a mask (a row of `newest_masks`) shows: its finding's label, else a note that is one of the study's."""
    named = found.get((row["id"], row["version"]))
    return named or (row["note"] if row["note"] in known else DEFAULT)

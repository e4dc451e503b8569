"""Lesion masks: 1-bit PNG, lossless, at the image's own resolution; versions are added, never overwritten."""

from __future__ import annotations

import functools
import io
import os
import time

import cv2
import numpy as np
from PIL import Image, ImageOps

from core.studio.db.store import Store, now
from core.studio.ingest.decode import probe, read_raw
from core.studio.ingest.unreadable import Unreadable, refusing

FEW = 16  # values that a class mask may have, in any arrangement
SOFT = 0.15  # share of neighbouring pixels that differ if a mask has graded values


def encode_mask(mask: np.ndarray) -> bytes:
    """Encodes a mask (H, W), in which lesion pixels are above 0, as a 1-bit PNG."""
    out = io.BytesIO()
    Image.fromarray((np.asarray(mask) > 0).astype(np.uint8) * 255).convert("1", dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()


def decode_mask(png: bytes) -> np.ndarray:
    """Decodes a mask from a 1-bit PNG: uint8 (H, W), 1 inside lesions."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("L")).astype(bool).astype(np.uint8)


def read_mask(path: str | os.PathLike, size: tuple[int, int] | None = None) -> np.ndarray:
    """Reads a mask file and converts it by `lesion` to uint8 (H, W) of 0 and 1.

    size: (width, height) of the image. Raises Unreadable if the mask has another size or cannot be read.
    """
    values = _stored(path)
    shape = values.shape[1::-1]
    if size is not None and shape != tuple(size):
        have = " x ".join(map(str, shape))
        raise Unreadable(f"the mask is {have} pixels, its image {size[0]} x {size[1]}; it was not imported")
    return lesion(values)


@refusing
def _stored(path: str | os.PathLike) -> np.ndarray:
    """Returns the values of a mask file: palette indices as stored; RGBA with colours multiplied by alpha."""
    if probe(path).format not in ("PNG", "GIF", "TIFF", "WEBP", "BMP"):
        return read_raw(path)
    with Image.open(path) as image:
        if image.mode == "P":
            return np.asarray(ImageOps.exif_transpose(image))
        if image.mode not in ("RGBA", "LA", "PA"):
            return read_raw(path)
        colours = np.asarray(ImageOps.exif_transpose(image).convert("RGBA")).astype(np.uint16)
        colours[..., :3] = colours[..., :3] * colours[..., 3:] // 255
        return colours


def lesion(values: np.ndarray) -> np.ndarray:
    """Converts a mask of any values, (H, W) or (H, W, channels), to uint8 (H, W): 1 inside lesions, else 0.

    The background is 0 if 25 % of the border is 0, else the border's most frequent value, so that class numbers,
    instance numbers, colours and drawings on transparency all work. If values are graded, as left by JPEG or resizing,
    a pixel is lesion above half of its component's maximum; differences up to the border's noise are background.
    """
    distance = _from_background(values.reshape(*values.shape[:2], -1))
    top, noise = distance.max(initial=0), _speckle(distance)
    differs = distance > noise
    if not differs.any() or not _is_soft(distance, differs):
        return differs.astype(np.uint8)
    count, components = cv2.connectedComponents((distance > max(noise, top / 8)).astype(np.uint8), connectivity=8)
    highest = np.zeros(count, distance.dtype)
    np.maximum.at(highest, components.ravel(), distance.ravel())
    highest[0] = np.inf
    return (distance > highest[components] / 2).astype(np.uint8)


def _speckle(distance: np.ndarray) -> float:
    """Returns the highest noise on the border: values below a quarter of the maximum, many and scattered; else 0."""
    ring = np.concatenate([distance[0], distance[:, -1], distance[-1, ::-1], distance[::-1, 0]])
    quiet = ring[ring < distance.max(initial=0) / 4]
    lit = np.count_nonzero(quiet)
    return float(quiet.max()) if lit >= FEW and np.count_nonzero(np.diff(quiet)) > lit / 2 else 0.0


def _from_background(values: np.ndarray) -> np.ndarray:
    """Returns each pixel's distance from the background in its farthest channel: (H, W, channels) -> float32 (H, W)."""
    border = np.concatenate([values[0], values[-1], values[:, 0], values[:, -1]])
    background = np.zeros_like(border[0])
    if np.count_nonzero((border[:, :3] == 0).all(1)) * 4 < len(border):
        kinds, counts = np.unique(border, axis=0, return_counts=True)
        background = kinds[counts.argmax()]
    # Channel by channel, since a maximum over so short an axis is slow.
    channels = zip(np.moveaxis(values.astype(np.float32), 2, 0), background.astype(np.float32), strict=True)
    return functools.reduce(np.maximum, (np.abs(channel - level) for channel, level in channels))


def _is_soft(distance: np.ndarray, marked: np.ndarray) -> bool:
    """Returns whether a mask has graded values: more than FEW values, and a share above SOFT of neighbours differ.

    Pairs of the most frequent value, which is the inside of the lesions, are not counted.
    """
    kinds, counts = np.unique(distance[marked], return_counts=True)
    if len(kinds) <= FEW:
        return False
    inside = distance == kinds[counts.argmax()]
    pairs = differing = 0
    for a, b in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
        counted = marked[a] & marked[b] & ~(inside[a] & inside[b])
        pairs += int(np.count_nonzero(counted))
        differing += int(np.count_nonzero(counted & (distance[a] != distance[b])))
    return differing > SOFT * pairs


def add_mask(
    store: Store,
    case_id: int,
    mask: np.ndarray | bytes,
    source: str,
    reader: str | None = None,
    run: str | None = None,
    threshold: float | None = None,
    note: str = "",
    created: str | None = None,
) -> int:
    """Stores a mask (array or its PNG) as the case's next version; returns the version. created: now, unless given."""
    png = mask if isinstance(mask, bytes) else encode_mask(mask)
    with store.write() as db:
        query = "SELECT coalesce(max(version), 0) + 1 FROM lesion_masks WHERE case_id = ?"
        version = db.execute(query, [case_id]).fetchone()[0]
        # Numbered by the clock, in microseconds: consecutive ids would reveal how many there are.
        last = db.execute("SELECT coalesce(max(id), 0) FROM lesion_masks").fetchone()[0]
        db.table("lesion_masks").insert(
            {
                "id": max(time.time_ns() // 1000, last + 1),
                "case_id": case_id,
                "version": version,
                "source": source,
                "reader": reader,
                "created": created or now(),
                "run": run,
                "threshold": threshold,
                "png": png,
                "note": note,
            }
        )
    return version


# There are two kinds of mask. The reference is a case's ground truth: the mask that a person explicitly chose as the
# reference, else the last imported mask. Every mask that a reader saves is a reader's mask.

_REFERENCES = """SELECT m.case_id, m.id FROM lesion_masks m LEFT JOIN reference_masks r ON r.case_id = m.case_id
  WHERE CASE WHEN r.mask IS NULL THEN m.source = 'import' ELSE m.id = r.mask END"""


def reference_masks(store: Store, study: str) -> dict[int, int]:
    """Returns case id -> id of its reference mask, for all cases of the study that have one."""
    query = f"{_REFERENCES} AND m.case_id IN (SELECT id FROM cases WHERE study = ?) ORDER BY m.version"
    return {row["case_id"]: row["id"] for row in store.query(query, [study])}


def reference_mask(store: Store, case_id: int) -> int | None:
    """Returns the id of a case's reference mask; None if it has none."""
    row = store.one(f"{_REFERENCES} AND m.case_id = ? ORDER BY m.version DESC LIMIT 1", [case_id])
    return row["id"] if row else None


def get_mask(store: Store, mask_id: int) -> np.ndarray:
    """Reads one version of a mask by its id: uint8 (H, W) of 0 and 1."""
    return decode_mask(store.first("SELECT png FROM lesion_masks WHERE id = ?", [mask_id])["png"])

"""Reads lesion masks, and stores them as 1-bit PNGs at the size of the image. Stored versions are never overwritten."""

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

FEW = 16  # distinct values that a mask of classes may have
SOFT = 0.15  # minimum fraction of neighbouring pixels that differ in a mask with graded values


def encode_mask(mask: np.ndarray) -> bytes:
    """Encodes a mask `(H, W)`, whose lesion pixels are above 0, as a 1-bit PNG."""
    out = io.BytesIO()
    Image.fromarray((np.asarray(mask) > 0).astype(np.uint8) * 255).convert("1", dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()


def decode_mask(png: bytes) -> np.ndarray:
    """Decodes a 1-bit PNG to a mask, uint8 `(H, W)`, 1 inside lesions."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("L")).astype(bool).astype(np.uint8)


def read_mask(path: str | os.PathLike, size: tuple[int, int] | None = None) -> np.ndarray:
    """Reads a mask file and converts it with `lesion` to uint8 `(H, W)`, 1 inside lesions.

    `size` is the width and height of the image. Raises Unreadable if the mask is unreadable or has another size.
    """
    values = _stored(path)
    shape = values.shape[1::-1]
    if size is not None and shape != tuple(size):
        actual = " x ".join(map(str, shape))
        raise Unreadable(f"the mask has {actual} pixels, but its image has {size[0]} x {size[1]}; it was not imported")
    return lesion(values)


@refusing
def _stored(path: str | os.PathLike) -> np.ndarray:
    """Returns the values of a mask file, with palette indices as stored and RGBA colours multiplied by alpha."""
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
    """Converts any mask values, `(H, W)` or `(H, W, channels)`, to uint8 `(H, W)`, 1 inside lesions and 0 elsewhere.

    The background is 0 if at least 25 % of the border pixels are 0, and otherwise the most frequent border value. Other
    values are lesions, whether they are class numbers, instance numbers, colours or transparency. Differences within
    the noise on the border are ignored. If JPEG compression or resizing has blurred the edges, only pixels above half
    the maximum of their connected component are lesions.
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
    """Returns the highest border value below a quarter of the maximum if such values are many and scattered, else 0."""
    ring = np.concatenate([distance[0], distance[:, -1], distance[-1, ::-1], distance[::-1, 0]])
    quiet = ring[ring < distance.max(initial=0) / 4]
    lit = np.count_nonzero(quiet)
    return float(quiet.max()) if lit >= FEW and np.count_nonzero(np.diff(quiet)) > lit / 2 else 0.0


def _from_background(values: np.ndarray) -> np.ndarray:
    """Returns the maximum difference of each pixel from the background over all channels, float32 `(H, W)`."""
    border = np.concatenate([values[0], values[-1], values[:, 0], values[:, -1]])
    background = np.zeros_like(border[0])
    if np.count_nonzero((border[:, :3] == 0).all(1)) * 4 < len(border):
        kinds, counts = np.unique(border, axis=0, return_counts=True)
        background = kinds[counts.argmax()]
    # Channel by channel, because NumPy is slow to compute a maximum over a short axis.
    channels = zip(np.moveaxis(values.astype(np.float32), 2, 0), background.astype(np.float32), strict=True)
    return functools.reduce(np.maximum, (np.abs(channel - level) for channel, level in channels))


def _is_soft(distance: np.ndarray, marked: np.ndarray) -> bool:
    """Returns whether a mask has over FEW values and, outside uniform lesions, over SOFT of adjacent pixels differ."""
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
    """Stores a mask (array or PNG) as a case's next version; returns the version. `created` defaults to now."""
    png = mask if isinstance(mask, bytes) else encode_mask(mask)
    with store.write() as db:
        query = "SELECT coalesce(max(version), 0) + 1 FROM lesion_masks WHERE case_id = ?"
        version = db.execute(query, [case_id]).fetchone()[0]
        # Ids are times in microseconds, because consecutive ids would reveal the number of masks.
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


# The reference mask of a case is its ground truth: the mask that a person chose as the reference, or else the last
# imported mask. The other masks are those that readers saved.

_REFERENCES = """SELECT m.case_id, m.id FROM lesion_masks m LEFT JOIN reference_masks r ON r.case_id = m.case_id
  WHERE CASE WHEN r.mask IS NULL THEN m.source = 'import' ELSE m.id = r.mask END"""


def reference_masks(store: Store, study: str) -> dict[int, int]:
    """Returns {case id: id of the reference mask} for each case of the study that has a reference mask."""
    query = f"{_REFERENCES} AND m.case_id IN (SELECT id FROM cases WHERE study = ?) ORDER BY m.version"
    return {row["case_id"]: row["id"] for row in store.query(query, [study])}


def reference_mask(store: Store, case_id: int) -> int | None:
    """Returns the id of a case's reference mask, or None if the case has no reference mask."""
    row = store.one(f"{_REFERENCES} AND m.case_id = ? ORDER BY m.version DESC LIMIT 1", [case_id])
    return row["id"] if row else None


def get_mask(store: Store, mask_id: int) -> np.ndarray:
    """Returns a stored mask by its id, uint8 `(H, W)`, 1 inside lesions."""
    return decode_mask(store.first("SELECT png FROM lesion_masks WHERE id = ?", [mask_id])["png"])

"""Lesion masks and heat maps as PNG files, and the objects of a mask."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.ingest import burned_in, volumes
from core.studio.ingest.masks import decode_mask
from core.studio.review.decisions import finding_labels as study_labels
from core.studio.review.exports.tables import Names

# A lesion mask as its objects: connected components (8 neighbours), which together are the mask, pixel for pixel.

DEFAULT = "lesion"


class NothingToExport(ValueError):
    """The error that a study has nothing of what is asked for."""

    def __init__(self, why: str = "no case of this study has a lesion mask") -> None:
        super().__init__(f"There is nothing to export: {why}.")


@dataclass(frozen=True)
class Component:
    """One component of a mask. counts: COCO's run lengths, down the columns, background first; bbox: x, y, width,
    height in pixels."""

    counts: list[int]
    area: int
    bbox: list[float]


def label_map(mask: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers a mask's components: mask (H, W) of 0 and not 0 -> int32 (H, W), 0 outside and 1..n within, and n."""
    count, parts = cv2.connectedComponents((np.asarray(mask) > 0).astype(np.uint8), connectivity=8, ltype=cv2.CV_32S)
    return parts, count - 1


def components(mask: np.ndarray) -> Iterator[Component]:
    """Yields components from the upper left on. Time goes with the mask's pixels, not with image times components."""
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
    """Returns (case, version of its mask) -> the label of the newest finding made with that version."""
    rows = store.query(
        "SELECT f.case_id, f.mask_version, f.label FROM findings f JOIN cases c ON c.id = f.case_id WHERE c.study = ? "
        "AND f.mask_version IS NOT NULL ORDER BY f.id",
        [study],
    )
    return {(r["case_id"], r["mask_version"]): r["label"] for r in rows}


def label_of(row: dict, found: dict[tuple[int, int], str], known: list[str]) -> str:
    """Finds what a mask (a row of `newest_masks`) shows: its finding's label, else its note if that is in `known`."""
    named = found.get((row["id"], row["version"]))
    return named or (row["note"] if row["note"] in known else DEFAULT)


# Lesion masks as PNG files and as COCO (RLE by pycocotools), one annotation for each connected component.


def newest_masks(store: Store, study: str) -> Iterator[dict]:
    """Yields the newest mask of each case that has one, one at a time in memory: the case's columns, png, version,
    source, note, run, threshold, drawn_by, drawn."""
    return each(
        store,
        "SELECT m.id FROM lesion_masks m JOIN cases c ON c.id = m.case_id WHERE c.study = ? AND m.version = "
        "(SELECT max(version) FROM lesion_masks WHERE case_id = c.id) ORDER BY c.id",
        [study],
        "SELECT c.*, m.png, m.version, m.source, m.note, m.run, m.threshold, m.reader AS drawn_by, "
        "m.created AS drawn FROM lesion_masks m JOIN cases c ON c.id = m.case_id WHERE m.id = :id",
    )


def each(store: Store, keys: str, params: Sequence[Any], one: str) -> Iterator[dict]:
    """Yields what the query `one` gives of each row of the query `keys`, whose columns it names as `:column`.

    One row at a time is in memory; what was erased meanwhile is passed over.
    """
    for row in store.query(keys, params):
        yield from store.query(one, row)


Target = Path | zipfile.ZipFile  # a folder, or a zip: what goes out is put there file by file


def put(out: Target, name: str, data: bytes) -> None:
    """Write a file that goes out. name: with the folders it lies in, by '/'."""
    if isinstance(out, zipfile.ZipFile):
        out.writestr(name, data, zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED)
    else:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)


def recorded(store: Store, study: str, by: str, names: Names, format: str, cases: list[int], **counts: int) -> dict:
    """Records an export of these cases in the audit trail; returns what `burned_in.among` says of them."""
    text = burned_in.among(store, study, cases)
    details = {"format": format, **counts, "named": names.keep, "burned_in": len(text["cases"])}
    audit.record(store, by, "export", study=study, after=details)
    return text


def export_png(store: Store, study: str, out: Target, by: str, keep_names: bool = False) -> dict:
    """Writes one 1-bit PNG for each case with a mask, byte for byte as it is stored; {"files", "burned_in"}.

    Raises NothingToExport if there is none.
    """
    names, written = Names(store, study, keep_names), list[int]()
    for row in newest_masks(store, study):
        put(out, f"{file_name(names.case(row), row['id'])}.png", row["png"])
        written.append(row["id"])
    if not written:
        raise NothingToExport
    return {"files": len(written), "burned_in": recorded(store, study, by, names, "png", written, files=len(written))}


def file_name(name: str, case_id: int) -> str:
    """Returns the stem of a mask's PNG file."""
    return f"{clean(name)}-{case_id}"


def clean(name: str) -> str:
    """Makes a name one that a file may have: other characters than letters, digits and `-_. ` become `_`."""
    return "".join(c if c.isalnum() or c in "-_. " else "_" for c in name)


def export_coco(store: Store, study: str, target: Path, by: str, keep_names: bool = False) -> dict:
    """Writes COCO: every test image, one annotation for each component of its newest mask, as compressed RLE.

    An image out of a recording names it and its frame (from 1), a slice its volume and its instance number; one that
    may carry burned-in text says so. Returns {"images", "annotations", "file", "burned_in"}.
    """
    from pycocotools import mask as rle

    names = Names(store, study, keep_names)
    cases = store.query("SELECT * FROM cases WHERE study = ? AND split = 'test' ORDER BY id", [study])
    text = burned_in.among(store, study, [c["id"] for c in cases])
    marked, several = set(text["cases"]), volumes.parts(store, study)
    images = []
    for case in cases:
        image = {"id": case["id"], "width": case["width"], "height": case["height"]}
        image["file_name"] = f"{names.case(case)}.png"
        if case["id"] in several:
            image |= {"recording": names.recording(case), "frame": several[case["id"]]}
        if case["id"] in marked:
            image["burned_in_text"] = True
        images.append(image)
    known = {c["id"] for c in cases}
    found, own = labels_of(store, study), study_labels(store, study)
    labels = [DEFAULT]
    annotations: list[dict] = []
    for row in newest_masks(store, study):
        if row["id"] not in known:
            continue
        label = label_of(row, found, own)
        if label not in labels:
            labels.append(label)
        size = [row["height"], row["width"]]
        for part in components(decode_mask(row["png"])):
            code = rle.frPyObjects({"counts": part.counts, "size": size}, *size)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": row["id"],
                    "category_id": labels.index(label) + 1,
                    "segmentation": {"size": size, "counts": code["counts"].decode("ascii")},
                    "area": part.area,
                    "bbox": part.bbox,
                    "iscrowd": 0,
                    "version": row["version"],
                }
            )
    categories = [{"id": i, "name": name} for i, name in enumerate(labels, 1)]
    info = {"description": f"{study}, lesion masks", "version": "1.0"}
    body = {"info": info, "images": images, "annotations": annotations, "categories": categories}
    Path(target).write_text(json.dumps(body))
    details = {"format": "coco", "annotations": len(annotations), "named": keep_names, "burned_in": len(marked)}
    audit.record(store, by, "export", study=study, after=details)
    return {"images": len(images), "annotations": len(annotations), "file": str(target), "burned_in": text}

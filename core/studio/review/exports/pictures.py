"""Lesion masks as PNG files and as COCO (RLE by pycocotools)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from core.studio.masks import decode_mask
from core.studio.review import audit
from core.studio.review.exports.names import Names
from core.studio.store import Store


def newest_masks(store: Store, study: str) -> list[dict]:
    """The newest version of each case that has one: the case's columns, png, version, source, note."""
    return store.query(
        "SELECT c.*, m.png, m.version, m.source, m.note, m.reader AS drawn_by, m.created AS drawn FROM lesion_masks m "
        "JOIN cases c ON c.id = m.case_id WHERE c.study = ? AND m.version = "
        "(SELECT max(version) FROM lesion_masks WHERE case_id = c.id) ORDER BY c.id",
        [study],
    )


def export_png(store: Store, study: str, folder: Path, by: str, keep_names: bool = False) -> dict:
    """One 1-bit PNG for each case with a mask, byte for byte as it is stored. {"files", "folder"}."""
    names = Names(store, study, keep_names)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = newest_masks(store, study)
    for row in rows:
        (folder / f"{_file(names.case(row), row['id'])}.png").write_bytes(row["png"])
    audit.record(store, by, "export", study=study, after={"format": "png", "files": len(rows), "named": keep_names})
    return {"files": len(rows), "folder": str(folder)}


def _file(name: str, case_id: int) -> str:
    clean = "".join(c if c.isalnum() or c in "-_. " else "_" for c in name)
    return f"{clean}-{case_id}"


def export_coco(store: Store, study: str, target: Path, by: str, keep_names: bool = False) -> dict:
    """COCO: every test image, one annotation for each mask, its segmentation as compressed RLE. {"images",
    "annotations"}."""
    from pycocotools import mask as rle

    names = Names(store, study, keep_names)
    images = [
        {"id": c["id"], "width": c["width"], "height": c["height"], "file_name": f"{names.case(c)}.png"}
        for c in store.query("SELECT * FROM cases WHERE study = ? AND split = 'test' ORDER BY id", [study])
    ]
    known = {i["id"] for i in images}
    labels = ["lesion"]
    annotations = []
    for row in newest_masks(store, study):
        pixels = decode_mask(row["png"])
        if row["id"] not in known or not pixels.any():
            continue
        label = row["note"] if row["note"] in store.setting(f"labels:{study}", []) else "lesion"
        if label not in labels:
            labels.append(label)
        code = rle.encode(np.asfortranarray(pixels))
        annotations.append(
            {
                "id": len(annotations) + 1,
                "image_id": row["id"],
                "category_id": labels.index(label) + 1,
                "segmentation": {"size": code["size"], "counts": code["counts"].decode("ascii")},
                "area": int(rle.area(code)),
                "bbox": [float(v) for v in rle.toBbox(code)],
                "iscrowd": 1,
                "version": row["version"],
            }
        )
    categories = [{"id": i, "name": name} for i, name in enumerate(labels, 1)]
    told = {"description": f"{study}, lesion masks", "version": "1.0"}
    body = {"info": told, "images": images, "annotations": annotations, "categories": categories}
    Path(target).write_text(json.dumps(body))
    audit.record(
        store, by, "export", study=study, after={"format": "coco", "annotations": len(annotations), "named": keep_names}
    )
    return {"images": len(images), "annotations": len(annotations), "file": str(target)}

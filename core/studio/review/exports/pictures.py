"""Lesion masks as PNG files and as COCO (RLE by pycocotools), one annotation for each connected component."""

from __future__ import annotations

import json
from pathlib import Path

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.ingest import burned_in, volumes
from core.studio.ingest.masks import decode_mask
from core.studio.review.exports import objects
from core.studio.review.exports.names import Names
from core.studio.review.findings import labels as study_labels


def newest_masks(store: Store, study: str) -> list[dict]:
    """The newest version of each case that has one: the case's columns, png, version, source, note."""
    return store.query(
        "SELECT c.*, m.png, m.version, m.source, m.note, m.reader AS drawn_by, m.created AS drawn FROM lesion_masks m "
        "JOIN cases c ON c.id = m.case_id WHERE c.study = ? AND m.version = "
        "(SELECT max(version) FROM lesion_masks WHERE case_id = c.id) ORDER BY c.id",
        [study],
    )


def export_png(store: Store, study: str, folder: Path, by: str, keep_names: bool = False) -> dict:
    """One 1-bit PNG for each case with a mask, byte for byte as it is stored. {"files", "folder", "burned_in"}."""
    names = Names(store, study, keep_names)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = newest_masks(store, study)
    for row in rows:
        (folder / f"{_file(names.case(row), row['id'])}.png").write_bytes(row["png"])
    text = burned_in.among(store, study, [r["id"] for r in rows])
    details = {"format": "png", "files": len(rows), "named": keep_names, "burned_in": len(text["cases"])}
    audit.record(store, by, "export", study=study, after=details)
    return {"files": len(rows), "folder": str(folder), "burned_in": text}


def _file(name: str, case_id: int) -> str:
    clean = "".join(c if c.isalnum() or c in "-_. " else "_" for c in name)
    return f"{clean}-{case_id}"


def export_coco(store: Store, study: str, target: Path, by: str, keep_names: bool = False) -> dict:
    """COCO: every test image, one annotation for each component of its newest mask, as compressed RLE.

    An image out of a recording names it and its frame (from 1), a slice its volume and its instance number; one that
    may carry burned-in text says so.
    {"images", "annotations", "file", "burned_in"}.
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
    found, own = objects.labels_of(store, study), study_labels(store, study)
    labels = [objects.DEFAULT]
    annotations: list[dict] = []
    for row in newest_masks(store, study):
        if row["id"] not in known:
            continue
        label = objects.label_of(row, found, own)
        if label not in labels:
            labels.append(label)
        size = [row["height"], row["width"]]
        for part in objects.components(decode_mask(row["png"])):
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

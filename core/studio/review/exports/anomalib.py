"""Exports a study as a folder for anomalib's MVTec and Folder readers, and for our own import (layout `loco`).

    train/good/NAME.png, test/good/NAME.png, test/LABEL/NAME.png, ground_truth/LABEL/NAME_mask.png (0 and 255)

Normals that are held out for thresholds are in validation/good, as in MVTec LOCO: nothing is trained on them.

Names begin with a number of fixed length, because the readers pair images with masks by the order of their names.
"""

from __future__ import annotations

import json
from collections import Counter

import cv2
import numpy as np

from core.studio.db.store import Store
from core.studio.ingest.masks import decode_mask
from core.studio.ingest.names import folded
from core.studio.ingest.originals import image_of
from core.studio.ingest.unreadable import Unreadable
from core.studio.review.exports.pictures import (
    DEFAULT,
    Labels,
    Masks,
    NothingToExport,
    Target,
    clean,
    each,
    put,
    recorded,
)
from core.studio.review.exports.tables import Names
from core.studio.review.results import settled

NORMAL, ABNORMAL, MASK = "good", "abnormal", "_mask"
PARTS = {"train": "train", "holdout": "validation", "test": "test"}  # the folder of each split


def export_anomalib(store: Store, study: str, out: Target, by: str, keep_names: bool = False, masks: str = "") -> dict:
    """Writes the study's images and masks in anomalib's layout; one image at a time is in memory.

    Returns {"files": images, "masks", "left_out": {reason: images}, "burned_in"}. An image imported without a label
    gets its readers' label. Its folder is named after its finding, else after its first tag, which is the kind of an
    imported defect. anomalib needs a mask for each abnormal image: if some have one, those without are skipped. So are
    undecided images, and those whose file is missing. Raises NothingToExport if there is no normal image to train with.
    """
    names, words, called = Names(store, study, keep_names), settled(store, study), Labels(store, study)
    of = Masks(store, study, masks)
    mask_of = {r["id"]: (called.named(r), r["png"], r["kind"]) for r in of if decode_mask(r["png"]).any()}
    written, mask_counts, skipped, spelled = list[int](), Counter[str](), dict[str, int](), dict[str, str]()
    for case in each(store, "SELECT id FROM cases WHERE study = ? ORDER BY id", [study], _CASE):
        label = case["label"] if case["label"] != "unknown" else words.get(case["id"], "unknown")
        why = "nobody decided on it" if label not in ("normal", ABNORMAL) else ""
        if label == ABNORMAL and mask_of and case["id"] not in mask_of:
            why = "abnormal and without a mask"
        try:
            image = None if why else image_of(case)
        except Unreadable:
            image, why = None, "its file is gone or changed"
        if image is None:
            skipped[why] = skipped.get(why, 0) + 1
            continue
        stem = stem_of(names.case(case), case["id"])
        kind = NORMAL
        if label != "normal":
            named = mask_of.get(case["id"], (None,))[0] or next(iter(json.loads(case["tags"])), None)
            kind = _folder(named or (DEFAULT if case["id"] in mask_of else ""))
            kind = spelled.setdefault(folded(kind), kind)
        folder = PARTS[case["split"]]
        put(out, f"{folder}/{kind}/{stem}.png", _png(image[..., ::-1]))
        if kind != NORMAL and mask_of:
            mask = decode_mask(mask_of[case["id"]][1])
            put(out, f"ground_truth/{kind}/{stem}{MASK}.png", _png((mask > 0).astype(np.uint8) * 255))
            mask_counts[mask_of[case["id"]][2]] += 1
        written.append(case["id"])
    if not store.one("SELECT 1 FROM cases WHERE study = ? AND split != 'test'", [study]) or not written:
        raise NothingToExport("this study has no normal image to train with")
    text = recorded(store, study, by, names, "anomalib", written, files=len(written), **mask_counts)
    return {"files": len(written), "masks": dict(mask_counts), "left_out": skipped, "burned_in": text}


_CASE = "SELECT * FROM cases WHERE id = :id"


def stem_of(name: str, case_id: int) -> str:
    """Returns the stem of a case's image file; its mask file has the same stem followed by MASK."""
    return f"{case_id:09d}-{clean(name)}"


def _folder(label: str) -> str:
    """Returns a label as the name of a folder, which is never the folder of normal images."""
    name = clean(label).strip(" .")
    return f"{name} {ABNORMAL}" if name.lower() == NORMAL else name or ABNORMAL


def _png(pixels: np.ndarray) -> bytes:
    return cv2.imencode(".png", pixels)[1].tobytes()

"""Exports of lesion masks as PNG files and COCO, and of a study as image folders for anomalib."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from core.studio.db.store import Store
from core.studio.ingest import burned_in, volumes
from core.studio.ingest.masks import decode_mask, reference_masks
from core.studio.ingest.names import folded
from core.studio.ingest.originals import image_of
from core.studio.ingest.unreadable import Unreadable
from core.studio.review.decisions import finding_labels as study_labels
from core.studio.review.exports.tables import Names, recorded
from core.studio.review.results import consensus_labels

DEFAULT = "lesion"


class NothingToExport(ValueError):
    """Raised if a study has nothing to export in the requested format. why: Reason for users, as a clause."""

    def __init__(self, why: str = "no case of this study has a lesion mask") -> None:
        super().__init__(f"There is nothing to export: {why}.")


@dataclass(frozen=True)
class Component:
    """One connected component of a mask.

    counts: Run lengths of the component down the columns of the image, background first, as in COCO.
    area: Number of pixels.
    bbox: Bounding box (x, y, width, height) in pixels.
    """

    counts: list[int]
    area: int
    bbox: list[float]


def label_map(mask: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers the connected components of a mask (H, W).

    Returns the component number of each pixel, int32 (H, W), or 0 for the background, and the number of components.
    """
    count, labelled = cv2.connectedComponents((np.asarray(mask) > 0).astype(np.uint8), connectivity=8, ltype=cv2.CV_32S)
    return labelled, count - 1


def components(mask: np.ndarray) -> Iterator[Component]:
    """Yields the connected components of a mask (H, W), in the order of their numbers in `label_map`."""
    mask = (np.asarray(mask) > 0).astype(np.uint8)
    if not mask.any():
        return
    _, labelled, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8, ltype=cv2.CV_32S)
    down = labelled.T.ravel()
    lit = np.flatnonzero(down)
    order = np.argsort(down[lit], kind="stable")
    ends = np.cumsum(stats[1:, cv2.CC_STAT_AREA])
    for pixels, box in zip(np.split(lit[order], ends[:-1]), stats[1:], strict=True):
        breaks = np.flatnonzero(np.diff(pixels) > 1)
        first = pixels[np.concatenate(([0], breaks + 1))]
        after = pixels[np.concatenate((breaks, [len(pixels) - 1]))] + 1
        edges = np.concatenate(([0], np.stack([first, after], 1).ravel(), [mask.size]))
        yield Component(np.diff(edges).tolist(), int(box[4]), [float(v) for v in box[:4]])


class Labels:
    """Labels of a study's masks and components, from the findings that refer to the masks."""

    def __init__(self, store: Store, study: str) -> None:
        rows = store.query(
            "SELECT f.case_id, f.mask_version, f.label, f.box FROM findings f JOIN cases c ON c.id = f.case_id "
            "WHERE c.study = ? AND f.mask_version IS NOT NULL ORDER BY f.id",
            [study],
        )
        self._found: dict[tuple[int, int], list[tuple[str, list[float] | None]]] = {}
        for row in rows:
            box = json.loads(row["box"]) if row["box"] else None
            self._found.setdefault((row["case_id"], row["mask_version"]), []).append((row["label"], box))
        self._listed = study_labels(store, study)

    def named(self, row: dict) -> str | None:
        """Returns the label of a mask, or None if the mask has no label. row: Row of `Masks`.

        The label comes from the newest finding on the mask, or else from the mask's note if this is a study label.
        """
        findings = self._found.get((row["id"], row["version"]))
        return findings[-1][0] if findings else row["note"] if row["note"] in self._listed else None

    def of(self, row: dict, bbox: Sequence[float]) -> str:
        """Returns the label of the finding whose box overlaps most with a component, else the mask's label or DEFAULT.

        row: Row of `Masks`.
        bbox: Bounding box (x, y, width, height) of the component in pixels.
        """
        x, y, w, h = bbox
        best, most = self.named(row) or DEFAULT, 0.0
        for label, box in self._found.get((row["id"], row["version"]), ()):
            if box is not None:
                wide, high = min(x + w, box[2]) - max(x, box[0]), min(y + h, box[3]) - max(y, box[1])
                common = max(wide, 0) * max(high, 0)
                alike = common / (w * h + (box[2] - box[0]) * (box[3] - box[1]) - common)
                best, most = (label, alike) if alike >= most and alike > 0 else (best, most)
        return best


@dataclass
class Masks:
    """Iterable of the masks to export, one per case: the reference mask or, if there is none, the newest by a reader.

    kind: "reference" or "readers" for masks of this kind only, or "" for both.
    counts: Number of masks yielded so far, by kind.
    """

    store: Store
    study: str
    kind: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[dict]:
        """Yields one row at a time: the columns of the case and "png", "version", "source", "note", "run", "threshold",
        "drawn_by": author, "drawn": time, and "kind": "reference" or "reader"."""
        references = reference_masks(self.store, self.study)
        query = (
            "SELECT m.case_id, max(m.id) AS id FROM lesion_masks m JOIN cases c ON c.id = m.case_id "
            "WHERE c.study = ? AND m.source != 'import' GROUP BY m.case_id"
        )
        newest = {row["case_id"]: row["id"] for row in self.store.query(query, [self.study])}
        chosen = {"": {**newest, **references}, "reference": references, "readers": newest}[self.kind]
        self.counts.clear()
        for case in sorted(chosen):
            for row in self.store.query(_MASK, [chosen[case]]):  # no row if the mask was erased during the export
                row["kind"] = "reference" if references.get(case) == chosen[case] else "reader"
                self.counts[row["kind"]] += 1
                yield row


_MASK = (
    "SELECT c.*, m.png, m.version, m.source, m.note, m.run, m.threshold, m.reader AS drawn_by, "
    "m.created AS drawn FROM lesion_masks m JOIN cases c ON c.id = m.case_id WHERE m.id = ?"
)


def each(store: Store, keys: str, params: Sequence[Any], row_query: str) -> Iterator[dict]:
    """Yields the rows of `row_query` for each row of `keys`, so that only one large row is in memory at a time.

    keys: Query with the parameters `params`, whose columns are the named parameters of `row_query`.
    """
    for row in store.query(keys, params):
        yield from store.query(row_query, row)


Target = Path | zipfile.ZipFile  # folder or open zip into which an export writes its files


def put(out: Target, name: str, data: bytes) -> None:
    """Writes a file into a folder or zip. name: Path of the file in `out`, with folders separated by "/"."""
    if isinstance(out, zipfile.ZipFile):
        out.writestr(name, data, zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED)
    else:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)


def export_png(store: Store, study: str, out: Target, by: str, keep_names: bool = False, masks: str = "") -> dict:
    """Writes the lesion mask of each case as a 1-bit PNG file, and `masks.csv` with the kind and reader of each mask.

    keep_names: Whether to export real names instead of remapped ones.
    masks: Kind of the masks, as in `Masks`.

    Returns {"files": number of PNG files, "masks": number of masks by kind, "burned_in": cases with likely burned-in
    text, as {"cases": ids}}. Raises NothingToExport if the study has no mask.
    """
    names, written, lines = Names(store, study, keep_names), list[int](), ["file,kind,reader"]
    exported = Masks(store, study, masks)
    for row in exported:
        file = f"{file_name(names.case(row), row['id'])}.png"
        put(out, file, row["png"])
        written.append(row["id"])
        lines.append(f"{file},{row['kind']},{names.reader(row['drawn_by']) or ''}")
    if not written:
        raise NothingToExport
    put(out, "masks.csv", "\n".join([*lines, ""]).encode())
    text = recorded(store, study, by, names, "png", written, files=len(written), **exported.counts)
    return {"files": len(written), "masks": dict(exported.counts), "burned_in": text}


def file_name(name: str, case_id: int) -> str:
    """Returns the file name of a case's mask, without suffix. name: Exported name of the case."""
    return f"{clean(name)}-{case_id}"


def clean(name: str) -> str:
    """Converts a name to a valid file name of letters, digits and the characters `-_. `, with at most 180 bytes."""
    plain = "".join(c if c.isalnum() or c in "-_. " else "_" for c in name)
    return plain.encode()[:180].decode(errors="ignore")


def export_coco(store: Store, study: str, target: Path, by: str, keep_names: bool = False, masks: str = "") -> dict:
    """Writes a COCO file with all test images and one annotation, as compressed RLE, per component of a mask.

    Frames and slices also have "recording" and "frame" (frame number from 1, or instance number of the slice), images
    with likely burned-in text have "burned_in_text", and annotations have "kind" ("reference" or "reader").

    keep_names: Whether to export real names instead of remapped ones.
    masks: Kind of the masks, as in `Masks`.

    Returns {"images": number of images, "annotations": number of annotations, "masks": number of masks by kind, "file",
    "burned_in": cases with likely burned-in text, as {"cases": ids}}.
    """
    from pycocotools import mask as rle

    names = Names(store, study, keep_names)
    cases = store.query("SELECT * FROM cases WHERE study = ? AND split = 'test' ORDER BY id", [study])
    case_ids = [c["id"] for c in cases]
    marked, frames = set(burned_in.among(store, study, case_ids)["cases"]), volumes.parts(store, study)
    images = []
    for case in cases:
        image = {"id": case["id"], "width": case["width"], "height": case["height"], "split": case["split"]}
        image["file_name"] = f"{names.case(case)}.png"
        if case["id"] in frames:
            image |= {"recording": names.recording(case), "frame": frames[case["id"]]}
        if case["id"] in marked:
            image["burned_in_text"] = True
        images.append(image)
    labels, called = list[str](), Labels(store, study)
    annotations: list[dict] = []
    exported = Masks(store, study, masks)
    for row in (row for row in exported if row["split"] == "test"):
        size = [row["height"], row["width"]]
        for component in components(decode_mask(row["png"])):
            label = called.of(row, component.bbox)
            labels.extend({label} - set(labels))
            code = rle.frPyObjects({"counts": component.counts, "size": size}, *size)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": row["id"],
                    "category_id": labels.index(label) + 1,
                    "segmentation": {"size": size, "counts": code["counts"].decode("ascii")},
                    "area": component.area,
                    "bbox": component.bbox,
                    "iscrowd": 0,
                    "version": row["version"],
                    "kind": row["kind"],
                }
            )
    categories = [{"id": i, "name": name} for i, name in enumerate(labels, 1)]
    info = {"description": f"{study}, lesion masks", "version": "1.0"}
    body = {"info": info, "images": images, "annotations": annotations, "categories": categories}
    Path(target).write_text(json.dumps(body))
    text = recorded(store, study, by, names, "coco", case_ids, annotations=len(annotations))
    return {
        "images": len(images),
        "annotations": len(annotations),
        "masks": dict(exported.counts),
        "file": str(target),
        "burned_in": text,
    }


# Folders for the MVTec and Folder readers of anomalib, and for the import of this studio (layout `loco`):
# train/good/NAME.png, test/good/NAME.png, test/LABEL/NAME.png, ground_truth/LABEL/NAME_mask.png (0 and 255).
# Held-out normals are in validation/good, as in MVTec LOCO, so that nothing is trained on them. Names begin with a
# number of fixed length, because anomalib pairs images with masks by the order of their names.

NORMAL, ABNORMAL, MASK = "good", "abnormal", "_mask"
PARTS = {"train": "train", "holdout": "validation", "test": "test"}  # split: folder


def export_anomalib(store: Store, study: str, out: Target, by: str, keep_names: bool = False, masks: str = "") -> dict:
    """Writes a study's images and masks as folders for anomalib.

    Unlabelled images get the readers' consensus label. Abnormal images are in a folder named after the label of their
    mask, or else after their first tag. Images without any label and missing or changed files are skipped. If the study
    has masks, abnormal images without a mask are also skipped.

    keep_names: Whether to export real names instead of remapped ones.
    masks: Kind of the masks, as in `Masks`.

    Returns {"files": number of images, "masks": number of masks by kind, "left_out": number of skipped images by
    reason, "burned_in": cases with likely burned-in text, as {"cases": ids}}. Raises NothingToExport if all images are
    skipped or belong to the test split.
    """
    names, decisions, called = Names(store, study, keep_names), consensus_labels(store, study), Labels(store, study)
    exported = Masks(store, study, masks)
    mask_of = {r["id"]: (called.named(r), r["png"], r["kind"]) for r in exported if decode_mask(r["png"]).any()}
    written, mask_counts, skipped, spelled = list[int](), Counter[str](), dict[str, int](), dict[str, str]()
    for case in each(
        store, "SELECT id FROM cases WHERE study = ? ORDER BY id", [study], "SELECT * FROM cases WHERE id = :id"
    ):
        label = case["label"] if case["label"] != "unknown" else decisions.get(case["id"], "unknown")
        reason = "nobody decided on it" if label not in ("normal", ABNORMAL) else ""
        if label == ABNORMAL and mask_of and case["id"] not in mask_of:
            reason = "abnormal and without a mask"
        try:
            image = None if reason else image_of(case)
        except Unreadable:
            image, reason = None, "its file is gone or changed"
        if image is None:
            skipped[reason] = skipped.get(reason, 0) + 1
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


def stem_of(name: str, case_id: int) -> str:
    """Returns the file name of a case's image, without suffix. name: Exported name of the case."""
    return f"{case_id:09d}-{clean(name)}"


def _folder(label: str) -> str:
    name = clean(label).strip(" .")
    return f"{name} {ABNORMAL}" if name.lower() == NORMAL else name or ABNORMAL


def _png(pixels: np.ndarray) -> bytes:
    return cv2.imencode(".png", pixels)[1].tobytes()

"""Lesion masks as PNG files and COCO, and the components of a mask."""

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

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.ingest import burned_in, volumes
from core.studio.ingest.masks import decode_mask, reference_masks
from core.studio.review.decisions import finding_labels as study_labels
from core.studio.review.exports.tables import Names

# A lesion mask as connected components (8 neighbours), which together are the mask, pixel for pixel.

DEFAULT = "lesion"


class NothingToExport(ValueError):
    """Raised if a study has nothing to export in the requested format."""

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
    """Numbers a mask's components: mask (H, W) of 0 and not 0 -> int32 (H, W), 0 outside and 1..n inside, and n."""
    count, labelled = cv2.connectedComponents((np.asarray(mask) > 0).astype(np.uint8), connectivity=8, ltype=cv2.CV_32S)
    return labelled, count - 1


def components(mask: np.ndarray) -> Iterator[Component]:
    """Yields components, starting at the upper left, in time linear in the mask's pixels."""
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
    """Labels of a study's masks and of their components, from the findings made with them."""

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
        """Returns the label of a mask (a row of `Masks`): its newest finding's, else its note if the study lists that
        as a label; None if it has none."""
        findings = self._found.get((row["id"], row["version"]))
        return findings[-1][0] if findings else row["note"] if row["note"] in self._listed else None

    def of(self, row: dict, bbox: Sequence[float]) -> str:
        """Returns a component's label, from the finding with the most similar box. bbox: x, y, width, height."""
        x, y, w, h = bbox
        best, most = self.named(row) or DEFAULT, 0.0
        for label, box in self._found.get((row["id"], row["version"]), ()):
            if box is not None:
                wide, high = min(x + w, box[2]) - max(x, box[0]), min(y + h, box[3]) - max(y, box[1])
                common = max(wide, 0) * max(high, 0)
                alike = common / (w * h + (box[2] - box[0]) * (box[3] - box[1]) - common)
                best, most = (label, alike) if alike >= most and alike > 0 else (best, most)
        return best


# Lesion masks as PNG files and as COCO (RLE by pycocotools), one annotation for each connected component.


@dataclass
class Masks:
    """The masks of an export, one for each case that has one: the reference, else a reader's newest mask.

    kind: `reference` or `readers` for masks of that kind only. counts: how many of each kind were yielded so far.
    """

    store: Store
    study: str
    kind: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[dict]:
        """Yields one at a time: the case's columns, png, version, source, note, run, threshold, drawn_by, drawn, kind
        ("reference" or "reader")."""
        references = reference_masks(self.store, self.study)
        query = (
            "SELECT m.case_id, max(m.id) AS id FROM lesion_masks m JOIN cases c ON c.id = m.case_id "
            "WHERE c.study = ? AND m.source != 'import' GROUP BY m.case_id"
        )
        newest = {row["case_id"]: row["id"] for row in self.store.query(query, [self.study])}
        chosen = {"": {**newest, **references}, "reference": references, "readers": newest}[self.kind]
        self.counts.clear()
        for case in sorted(chosen):
            for row in self.store.query(_MASK, [chosen[case]]):  # masks erased meanwhile are skipped
                row["kind"] = "reference" if references.get(case) == chosen[case] else "reader"
                self.counts[row["kind"]] += 1
                yield row


_MASK = (
    "SELECT c.*, m.png, m.version, m.source, m.note, m.run, m.threshold, m.reader AS drawn_by, "
    "m.created AS drawn FROM lesion_masks m JOIN cases c ON c.id = m.case_id WHERE m.id = ?"
)


def each(store: Store, keys: str, params: Sequence[Any], row_query: str) -> Iterator[dict]:
    """Yields the rows of `row_query` for each row of the query `keys`, whose columns are its parameters `:column`.

    One row at a time is in memory; rows erased meanwhile are skipped.
    """
    for row in store.query(keys, params):
        yield from store.query(row_query, row)


Target = Path | zipfile.ZipFile  # a folder or a zip, to which files are exported one by one


def put(out: Target, name: str, data: bytes) -> None:
    """Writes an exported file. name: with its folders, separated by '/'."""
    if isinstance(out, zipfile.ZipFile):
        out.writestr(name, data, zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED)
    else:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)


def recorded(store: Store, study: str, by: str, names: Names, format: str, cases: list[int], **counts: int) -> dict:
    """Records an export of these cases in the audit trail; returns what `burned_in.among` reports on them."""
    text = burned_in.among(store, study, cases)
    details = {"format": format, **counts, "named": names.keep, "burned_in": len(text["cases"])}
    audit.record(store, by, "export", study=study, after=details)
    return text


def export_png(store: Store, study: str, out: Target, by: str, keep_names: bool = False, masks: str = "") -> dict:
    """Writes one 1-bit PNG for each case with a mask, byte for byte as stored, and `masks.csv`, which says whether each
    is the reference or a reader's.

    masks: the kind, as in `Masks`. Returns {"files", "masks", "burned_in"}. Raises NothingToExport if there is none.
    """
    names, written, lines = Names(store, study, keep_names), list[int](), ["file,kind,reader"]
    of = Masks(store, study, masks)
    for row in of:
        file = f"{file_name(names.case(row), row['id'])}.png"
        put(out, file, row["png"])
        written.append(row["id"])
        lines.append(f"{file},{row['kind']},{names.reader(row['drawn_by']) or ''}")
    if not written:
        raise NothingToExport
    put(out, "masks.csv", "\n".join([*lines, ""]).encode())
    text = recorded(store, study, by, names, "png", written, files=len(written), **of.counts)
    return {"files": len(written), "masks": dict(of.counts), "burned_in": text}


def file_name(name: str, case_id: int) -> str:
    """Returns the stem of a mask's PNG file."""
    return f"{clean(name)}-{case_id}"


def clean(name: str) -> str:
    """Makes a name valid for a file: letters, digits and `-_. `, at most 180 bytes."""
    plain = "".join(c if c.isalnum() or c in "-_. " else "_" for c in name)
    return plain.encode()[:180].decode(errors="ignore")


def export_coco(store: Store, study: str, target: Path, by: str, keep_names: bool = False, masks: str = "") -> dict:
    """Writes COCO: every test image, one annotation for each component of its mask, as compressed RLE.

    A frame names its recording and its number (from 1), a slice its volume and its instance number; an image that may
    carry burned-in text says so, an annotation says whether its mask is the reference or a reader's. masks: the kind,
    as in `Masks`. Returns {"images", "annotations", "masks", "file", "burned_in"}.
    """
    from pycocotools import mask as rle

    names = Names(store, study, keep_names)
    cases = store.query("SELECT * FROM cases WHERE study = ? AND split = 'test' ORDER BY id", [study])
    text = burned_in.among(store, study, [c["id"] for c in cases])
    marked, several = set(text["cases"]), volumes.parts(store, study)
    images = []
    for case in cases:
        image = {"id": case["id"], "width": case["width"], "height": case["height"], "split": case["split"]}
        image["file_name"] = f"{names.case(case)}.png"
        if case["id"] in several:
            image |= {"recording": names.recording(case), "frame": several[case["id"]]}
        if case["id"] in marked:
            image["burned_in_text"] = True
        images.append(image)
    case_ids = {c["id"] for c in cases}
    labels, called = list[str](), Labels(store, study)
    annotations: list[dict] = []
    of = Masks(store, study, masks)
    for row in of:
        if row["id"] not in case_ids:
            continue
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
    details = {"format": "coco", "annotations": len(annotations), "named": keep_names, "burned_in": len(marked)}
    audit.record(store, by, "export", study=study, after=details)
    return {
        "images": len(images),
        "annotations": len(annotations),
        "masks": dict(of.counts),
        "file": str(target),
        "burned_in": text,
    }

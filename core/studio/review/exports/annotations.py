"""Annotations of other tools: reads and writes CVAT XML, Label Studio JSON and YOLO; reads COCO and PNG masks.

An import finds cases by the path or name of their file (`ingest.names`), or by their name in exports of this studio.
The outlines and masks by one author on a case become one lesion mask, stored as drawn by hand, and each shape becomes a
finding. The author is stored as "author (tool)", which is no reader's name, so that blind readers do not see the
annotations. The whole file is read before anything is stored. Shapes that cannot be imported are skipped and reported.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from core.studio.db import audit
from core.studio.db.foreign import Refused, plain, refusing
from core.studio.db.store import Store, now
from core.studio.ingest.masks import add_mask, decode_mask, encode_mask, read_mask
from core.studio.ingest.names import PathIndex, folded, stem
from core.studio.ingest.reader import printable
from core.studio.ingest.unreadable import Unreadable
from core.studio.review.decisions import insert_finding
from core.studio.review.exports import pictures, shapes
from core.studio.review.exports.shapes import LARGEST, Shape
from core.studio.review.exports.tables import Names, recorded

MOST_SHAPES, MOST_POINTS = 200_000, 5_000_000
NAMED = 1000  # maximum number of names and of reasons in an answer
BEYOND = 0.1  # fraction of the image's side by which a shape may exceed the image if the size of its picture is unknown
TOOLS = {"coco": "COCO", "cvat": "CVAT", "label-studio": "Label Studio", "png": "PNG", "yolo": "YOLO"}
READ = {
    "coco": shapes.coco, "cvat": shapes.cvat, "label-studio": shapes.label_studio, "png": shapes.png,
    "yolo": shapes.yolo,
}  # fmt: skip
OUT = {"cvat": "zip", "label-studio": "json", "yolo": "zip"}  # suffixes of exported files
UPLOADED = re.compile(r"[0-9a-f]{8}-(.+)", re.S)  # name that Label Studio gives an uploaded file


def import_annotations(store: Store, study: str, file: Path, format: str, by: str) -> dict:
    """Imports the annotations in another tool's file as masks and findings of the study's cases.

    format: Key of TOOLS.
    by: Name of the reader who imports the file, used as the author of shapes without an author.

    Returns {"format", "cases": number of annotated cases, "findings": number of imported shapes, "cut": number of
    shapes cropped to the image, "unknown": image names that match no case, "passed_over": reasons why other shapes were
    skipped}. Raises Refused if the file has another format, is too large or holds nothing that can be imported.
    """
    if format not in TOOLS:
        raise Refused(f"annotations are imported from one of {', '.join(TOOLS)}, not {format!r}")
    file = Path(file)
    if file.stat().st_size > LARGEST:
        raise Refused(f"A file of annotations has at most {LARGEST:,} bytes.")
    batch = _Accepted(_Cases(store, study), by, TOOLS[format])
    with refusing(f"{file.name} is no {TOOLS[format]} file that can be read: it"):
        for shape in sorted(_limited(READ[format](file)), key=lambda shape: shape.file):
            batch.find(shape)
        batch.take()
    if not batch.drawn:
        raise Refused(f"Nothing was stored: {file.name} {batch.why()}.")
    findings = 0
    with store.write():
        for (case_id, author), several in batch.drawn.items():
            latest = max(_when(shape.created) for shape, _ in several)
            version = None
            if (case_id, author) in batch.masks:
                mask = batch.masks[case_id, author]
                version = add_mask(store, case_id, mask, "hand", author, created=latest)
            for shape, box in several:
                label = printable(shape.label).strip()[:60] or shapes.LESION
                row = {"label": label, "comment": "", "mask_version": version}
                insert_finding(store, case_id, author, row, box, _when(shape.created))
                findings += 1
        after = {"format": format, "cases": len({case for case, _ in batch.drawn}), "findings": findings}
        audit.record(store, by, "annotations", study=study, after=after | {"unknown": len(batch.unknown)})
    return {**after, "cut": batch.cut, "unknown": sorted(batch.unknown)[:NAMED], "passed_over": batch.reasons()}


class _Cases:
    """Index of a study's cases by every name that a file may use for a case."""

    def __init__(self, store: Store, study: str) -> None:
        rows = store.query("SELECT * FROM cases WHERE study = ? ORDER BY id", [study])
        if not rows:
            raise Refused(f"the study {study!r} does not exist or has no images")
        self.by_id = {case["id"]: case for case in rows}
        self.ours: dict[str, int] = {}  # ids of the cases by their names in exports
        frames, paths = Counter(case["path"] for case in rows), list[tuple[str, int]]()
        named = Names(store, study, True), Names(store, study)
        for case in rows:
            folder, _, name = case["path"].replace("\\", "/").rpartition("/")
            paths += [(f"{folder}/{alias}", case["id"]) for alias in {case["name"], name}]
            if frames[case["path"]] > 1:
                del paths[-1 if name != case["name"] else len(paths) :]
            for called in (names.case(case) for names in named):
                stems = pictures.stem_of(called, case["id"])
                for ours in (called, pictures.file_name(called, case["id"]), stems, stems + pictures.MASK):
                    self.ours.setdefault(ours, case["id"])
        self.paths = PathIndex(paths)

    def find(self, shape: Shape) -> list[int]:
        """Returns the ids of the cases to which a shape may belong: none if its image is unknown, several if the name
        of its image is ambiguous."""
        readings = list(dict.fromkeys((shape.file, *shape.names)))
        for name in [*readings, *filter(None, map(_uploaded, readings))]:
            for called in (name, stem(name)):
                segments = called.replace("\\", "/").split("/")
                for start in range(len(segments)):
                    if (case := self.ours.get("/".join(segments[start:]))) is not None:
                        return [case]
            if name and (matches := self.paths.find(name)):
                return matches
        return []


def _uploaded(name: str) -> str | None:
    """Returns an image's name without the prefix that Label Studio adds to uploads, or None without such a prefix."""
    folder, slash, last = name.replace("\\", "/").rpartition("/")
    match = UPLOADED.fullmatch(last)
    return match and f"{folder}{slash}{match[1]}"


class _Accepted:
    """Collector of the shapes to import from a file, by case and author, and of the skipped shapes with reasons."""

    def __init__(self, cases: _Cases, by: str, tool: str) -> None:
        self.cases, self.by, self.tool, self.cut = cases, by, tool, 0
        self.drawn: dict[tuple[int, str], list[tuple[Shape, tuple[float, ...]]]] = {}
        self.masks: dict[tuple[int, str], bytes] = {}
        self.unknown = set[str]()
        self._of: dict[int, dict[str, list[Shape]]] = {}  # shapes by case and by the name of the image in the file
        self._passed: dict[str, list[str]] = {}

    def find(self, shape: Shape) -> None:
        """Assigns a shape to its case, or records why the shape is skipped."""
        try:
            plain("".join((shape.file, *shape.names, shape.label, shape.author or "")))
        except ValueError:
            shape.problem, shape.file = "a name or a label is not valid text", printable(shape.file)
        shape.problem = shape.problem or (None if shape.file else "a shape names no image")
        matches = [] if shape.problem else self.cases.find(shape)
        if shape.problem:
            self._pass(shape.problem, shape)
        elif len(matches) > 1:
            self._pass("several images of the study have this name", shape)
        elif matches:
            name = folded(shape.file)  # the masks of one image are several files in one folder
            name = name if shape.image is None else name.rpartition("/")[0]
            self._of.setdefault(matches[0], {}).setdefault(name, []).append(shape)
        else:
            self.unknown.add(shape.file)

    def take(self) -> None:
        """Converts the shapes to pixels. If several images of the file match one case, the image whose folders match
        best is used."""
        for number, named in self._of.items():
            case = self.cases.by_id[number]
            shared = {name: _shared(name, case["path"], folder=several[0].image is not None)
                      for name, several in named.items()}  # fmt: skip
            best = [name for name, count in shared.items() if count == max(shared.values())]
            for name, several in named.items():
                for shape in several:
                    if [name] != best:
                        self._pass("the file has several images of this name, but the study has one", shape)
                        continue
                    try:
                        self._add(shape, case, *place(shape, case))
                    except Refused as error:
                        self._pass(str(error), shape)

    def _pass(self, why: str, shape: Shape) -> None:
        self._passed.setdefault(why, []).append(shape.file)

    def _add(self, shape: Shape, case: dict, mask: np.ndarray | None, box: tuple[float, ...], cut: bool) -> None:
        key = (case["id"], f"{(shape.author or self.by).strip()[:60]} ({self.tool})")
        self.drawn.setdefault(key, []).append((shape, box))
        self.cut += cut
        if mask is not None:
            if key in self.masks:
                mask |= decode_mask(self.masks[key]).astype(bool)
            self.masks[key] = encode_mask(mask)

    def reasons(self) -> list[str]:
        """Returns a phrase for each reason, with the number of skipped shapes and the name of the first image."""
        lines = []
        for why, files in sorted(self._passed.items())[:NAMED]:
            first = next((file for file in files if file), "")
            count = f"{len(files)} shapes" if len(files) > 1 else "1 shape"
            lines.append(f"{why} ({count}{', first ' if len(files) > 1 else ' '}on {first})" if first else why)
        return lines

    def why(self) -> str:
        """Returns the end of a sentence that says why nothing in the file can be imported."""
        if self._passed:
            return "holds nothing that can be imported: " + "; ".join(self.reasons()[:3])
        named = ", ".join(map(repr, sorted(self.unknown)[:3]))
        return f"names no image of this study (it names {named})" if named else "holds no shapes"


def _shared(name: str, path: str, folder: bool) -> int:
    """Counts the innermost folders that a name and a case's path share. folder: Whether `name` names a folder."""
    name_parts, path_parts = (folded(text).split("/") for text in (name, path))
    pairs = zip(reversed(name_parts if folder else name_parts[:-1]), reversed(path_parts[:-1]), strict=False)
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _limited(drawn_shapes: Iterator[Shape]) -> Iterator[Shape]:
    points = 0
    for count, shape in enumerate(drawn_shapes, 1):
        points += sum(map(len, shape.rings)) + len(shape.runs or shape.brush or ())
        if count > MOST_SHAPES or points > MOST_POINTS:
            raise Refused(f"A file has at most {MOST_SHAPES:,} shapes with {MOST_POINTS:,} points in all.")
        yield shape


def _when(text: str | None) -> str:
    """Converts a tool's time to the format of the database. Returns the current time for an invalid or future time."""
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        utc = moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return min(utc, now())
    except (ValueError, OverflowError):
        return now()


def place(shape: Shape, case: dict) -> tuple[np.ndarray | None, tuple[float, ...], bool]:
    """Converts a shape to pixels of the case's image.

    Returns three values: the mask, bool (H, W), or None for a box; the bounding box (x0, y0, x1, y1) in pixels; and
    whether the shape was cropped to the image. Raises Refused if the shape is empty, invalid or outside the image.
    """
    w, h = case["width"], case["height"]
    if shape.size is not None and shape.size != (w, h):
        raise Refused(f"a shape was drawn on {shape.size[0]} x {shape.size[1]} pixels, its image has {w} x {h}")
    mask = np.zeros((h, w), np.uint8)
    if shape.runs is not None:
        x, y, wide, high = shape.window or (0, 0, w, h)
        cut = _reach(shape, np.array([[x, y], [x + wide, y + high]]), w, h)
        if min(wide, high, *shape.runs) < 0 or sum(shape.runs) != wide * high:
            raise Refused("the run lengths of a mask do not fit its size")
        flat = np.repeat(np.arange(len(shape.runs)) % 2, shape.runs).astype(np.uint8)
        pixels = flat.reshape(wide, high).T if shape.columns else flat.reshape(high, wide)
        mask[max(y, 0) : y + high, max(x, 0) : x + wide] = pixels[max(-y, 0) : h - y, max(-x, 0) : w - x]
    elif shape.brush is not None:
        mask, cut = shapes.brush_mask(shape.brush, w, h).astype(np.uint8), False
    elif shape.image is not None:
        mask, cut = _mask_file(shape.image, w, h), False
    elif shape.box is not None:
        left, upper, right, lower = shape.box
        corners = _turned(np.array([[left, upper], [right, upper], [right, lower], [left, lower]]), shape, w, h)
        cut = _reach(shape, corners, w, h)
        (x0, y0), (x1, y1) = corners.min(0).clip(0, [w, h]), corners.max(0).clip(0, [w, h])
        if min(x1 - x0, y1 - y0) <= 0:
            raise Refused("a box has no area")
        return None, (x0, y0, x1, y1), cut
    else:
        rings = [ring * ((w, h) if shape.shares else (1, 1)) for ring in shape.rings]
        if shape.ellipse is not None:
            rings = [_turned(_ellipse(*shape.ellipse), shape, w, h)]
        cut = any([_reach(shape, ring, w, h) for ring in rings])
        for ring in rings:
            cv2.fillPoly(mask, [np.rint(ring).astype(np.int32)], 1)
    if not mask.any():
        raise Refused("a mask or outline is empty")
    x, y, wide, high = cv2.boundingRect(mask)
    return mask.astype(bool), (x, y, x + wide, y + high), cut


def _reach(shape: Shape, points: np.ndarray, w: int, h: int) -> bool:
    """Returns whether points (N, 2) lie outside the image by more than a pixel.

    Raises Refused if they lie outside by more than BEYOND of a side, or by more than a side if the file tells the size
    of the picture or has relative coordinates.
    """
    over = np.maximum(-points.min(0), points.max(0) - [w, h])
    room = (1 if shape.size or shape.shares else BEYOND) * np.array([w, h])
    if (over > room).any() or (points.max(0) < 0).any() or (points.min(0) > [w, h]).any():
        raise Refused(f"a shape does not lie in the image of {w} x {h} pixels")
    return bool((over > 1).any())


def _turned(points: np.ndarray, shape: Shape, w: int, h: int) -> np.ndarray:
    """Converts points (N, 2) of a box or ellipse to pixels and rotates them clockwise about their centre or corner."""
    points = points * ((w, h) if shape.shares else (1, 1))
    pivot = points[0] if shape.corner else (points.min(0) + points.max(0)) / 2
    turn = math.radians(shape.turn % 360)
    return (points - pivot) @ np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]]) + pivot


def _ellipse(x: float, y: float, rx: float, ry: float) -> np.ndarray:
    if min(rx, ry) <= 0:
        raise Refused("an ellipse has no area")
    turn = np.linspace(0, 2 * math.pi, 72, endpoint=False)
    return np.stack([x + rx * np.cos(turn), y + ry * np.sin(turn)], 1)


def _mask_file(body: bytes, w: int, h: int) -> np.ndarray:
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        file.write(body)
        file.flush()
        try:
            return read_mask(file.name, (w, h))
        except Unreadable as error:
            raise Refused(str(error).split(";")[0]) from None


def export_annotations(
    store: Store, study: str, target: Path, format: str, by: str, keep_names: bool = False, masks: str = ""
) -> dict:
    """Exports a study's lesion masks in the format of another tool, with one shape per connected component.

    CVAT files hold exact masks. Label Studio and YOLO files hold outlines.

    format: Key of OUT.
    keep_names: Whether to export real names, times and readers instead of remapped ones.
    masks: Kind of the masks, as in `pictures.Masks`.

    Returns {"shapes": number of shapes, "masks": number of masks by kind, "file", "burned_in": cases with likely
    burned-in text, as {"cases": ids}}. Raises NothingToExport if the study has no mask.
    """
    names, label_source = Names(store, study, keep_names), pictures.Labels(store, study)
    cases, labels, count, exported = list[int](), dict[str, int](), 0, pictures.Masks(store, study, masks)

    def drawn() -> Iterator[_Drawn]:
        nonlocal count
        for row in exported:
            mask = decode_mask(row["png"])
            if mask.any():
                cases.append(row["id"])
                count += pictures.label_map(mask)[1]
                yield _Drawn(row, names.case(row), label_source, mask)

    target = Path(target)
    if format == "label-studio":
        with target.open("w", encoding="utf-8") as text:
            text.write("[")
            for number, mask_out in enumerate(drawn()):
                text.write((",\n" if number else "") + json.dumps(_task(mask_out, names)))
            text.write("]")
    else:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
            if format == "cvat":
                with out.open("annotations.xml", "w", force_zip64=True) as xml:
                    xml.write(b"<annotations><version>1.1</version>")
                    for mask_out in drawn():
                        xml.write(ElementTree.tostring(_cvat_image(mask_out), encoding="unicode").encode())
                    xml.write(b"</annotations>")
            else:
                for mask_out in drawn():
                    out.writestr(f"labels/{mask_out.name}.txt", _yolo_lines(mask_out, labels))
                out.writestr("classes.txt", "\n".join(labels))
    if not cases:
        raise pictures.NothingToExport
    burned = recorded(store, study, by, names, format, cases, shapes=count)
    return {"shapes": count, "masks": dict(exported.counts), "file": str(target), "burned_in": burned}


@dataclass
class _Drawn:
    """A mask to export, with the row of `Masks`, the case's exported name and the labels of the study's components."""

    row: dict
    name: str
    labels: pictures.Labels
    mask: np.ndarray

    def components(self) -> Iterator[tuple[str, tuple[int, ...], np.ndarray]]:
        """Yields the label, box (x, y, width, height) and pixels inside the box of each component."""
        labelled, _ = pictures.label_map(self.mask)
        for i, component in enumerate(pictures.components(self.mask), 1):
            x, y, wide, high = (int(v) for v in component.bbox)
            alone = (labelled[y : y + high, x : x + wide] == i).astype(np.uint8)
            yield printable(self.labels.of(self.row, component.bbox)), (x, y, wide, high), alone

    def outlines(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yields the label and outline of each component; outlines are (N, 2) in fractions of the image, N >= 3."""
        for label, (x, y, _, _), alone in self.components():
            outline = outline_of(alone)
            outline = np.concatenate([outline, outline[:1].repeat(max(0, 3 - len(outline)), 0)])  # of 1 or 2 pixels
            yield label, (outline + [x, y]) / self.mask.shape[::-1]


def outline_of(pixels: np.ndarray) -> np.ndarray:
    """Returns the outline (N, 2) of a component, as x and y. Filling it by the even-odd rule restores the component.

    Each hole is connected to the outline on its left by a cut through pixels of the component.

    pixels: The component, uint8 (H, W).
    """
    contours, tree = cv2.findContours(pixels, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    rings = [(of[3] >= 0, contour.reshape(-1, 2)) for contour, of in zip(contours, tree[0], strict=True)]
    (_, outline), *holes = sorted(rings, key=lambda ring: (ring[0], ring[1][:, 0].min()))
    for _, hole in holes:
        hole = np.roll(hole, -hole[:, 0].argmin(), axis=0)
        x, y = hole[0]
        edge = x - pixels[y, : x + 1][::-1].argmin() + 1 if not pixels[y, : x + 1].all() else 0
        at = int(np.flatnonzero((outline == [edge, y]).all(1))[0]) + 1
        outline = np.concatenate([outline[:at], hole, hole[:1], outline[at - 1 :]])
    before, after = np.roll(outline, 1, 0), np.roll(outline, -1, 0)
    turns = ((outline - before) != (after - outline)).any(1)
    return outline[turns] if turns.any() else outline


def _cvat_image(item: _Drawn) -> ElementTree.Element:
    h, w = item.mask.shape
    attributes = {"id": str(item.row["id"]), "name": f"{item.name}.png", "width": str(w), "height": str(h)}
    attributes["subset"] = item.row["split"]
    image = ElementTree.Element("image", attributes)
    for label, box, alone in item.components():
        window = dict(zip(("left", "top", "width", "height"), map(str, box), strict=True))
        fields = {"label": label, "source": "file", "occluded": "0", "rle": ", ".join(map(str, _runs(alone)))}
        ElementTree.SubElement(image, "mask", fields | window)
    return image


def _yolo_lines(item: _Drawn, labels: dict[str, int]) -> str:
    """Returns a line for each component. labels: Class numbers by label, to which new classes are added."""
    outlines = ((labels.setdefault(label, len(labels)), outline) for label, outline in item.outlines())
    return "\n".join(f"{kind} " + " ".join(f"{v:.8f}" for v in outline.ravel()) for kind, outline in outlines)


def _task(item: _Drawn, names: Names) -> dict[str, Any]:
    h, w = item.mask.shape
    results = []
    for i, (label, outline) in enumerate(item.outlines(), 1):
        value = {"points": (outline * 100).round(8).tolist(), "polygonlabels": [label], "closed": True}
        results.append({"id": f"{item.row['id']}-{i}", "type": "polygonlabels", "from_name": "label",
                        "to_name": "image", "original_width": w, "original_height": h,
                        "image_rotation": 0, "value": value})  # fmt: skip
    who = {"email": names.reader(item.row["drawn_by"]) or "import"}
    annotation = {"result": results, "completed_by": who, "created_at": names.when(item.row["drawn"])}
    data = {"image": f"{item.name}.png", "split": item.row["split"]}
    return {"id": item.row["id"], "data": data, "annotations": [annotation]}


def _runs(mask: np.ndarray) -> list[int]:
    flat = mask.ravel()
    edges = np.concatenate([[0], np.flatnonzero(np.diff(flat)) + 1, [flat.size]])
    runs = np.diff(edges).tolist()
    return [0, *runs] if flat[0] else runs
